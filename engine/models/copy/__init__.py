"""No model: the picture is only converted."""
