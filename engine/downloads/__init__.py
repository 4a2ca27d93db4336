"""Downloads over HTTP: resumable, verified by SHA-256; no knowledge of what is downloaded."""
