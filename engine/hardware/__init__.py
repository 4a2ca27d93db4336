"""Hardware of this computer: devices, features, telemetry, power; never torch."""
