"""Generation of training data as Tensor2Tensor did: problems, vocabularies, samples, and shards of encoded examples."""
