"""The engine child and its client: token ids in, token ids and raw logprobs out."""
