"""What this machine is and how it feels: devices, features, telemetry, power; never torch."""
