"""One file a learning method: from an encoded example to a loss."""
