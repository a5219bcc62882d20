"""Generation of training data as Tensor2Tensor did: problems, vocabularies, samples, and shards of encoded examples.

- `problem_files`, `problems`: the interface for users, and what it does; `problem_declaration`: what a problem is
- `sample_sources`, `sample_reading`: samples; `vocabularies`, `generation_job`: their ids and records
- `dataset_job`: the job; `dataset_outputs`: its outputs, the shuffled shards
- `published_functions`: functions of Tensor2Tensor that read files, encode samples and write examples
"""
