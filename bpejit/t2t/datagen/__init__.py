"""Generation of training data as Tensor2Tensor did: problems, vocabularies, samples, and shards of encoded examples.

- `problems`: the interface for users, and what it does; `problem_declaration`, `problem_files`: what a problem is
- `sample_sources`, `sample_reading`: samples; `vocabularies`: their ids
- `generation_job`: the job, whose parts have records, and its outputs, the shuffled shards
- `published_functions`: functions of Tensor2Tensor that read files, encode samples and write examples
"""
