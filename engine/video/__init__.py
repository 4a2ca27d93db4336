"""Videos and pictures: reading, writing, colour and shots."""
