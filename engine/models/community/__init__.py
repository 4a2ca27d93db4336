"""Community models: networks of one frame that spandrel recognises from a file of the user's."""
