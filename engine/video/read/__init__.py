"""Files to frames: probing, demuxing, decoding, time stamps."""
