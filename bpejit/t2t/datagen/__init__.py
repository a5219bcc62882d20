"""Generation of training data as Tensor2Tensor did: problems, vocabularies, samples, and shards of encoded examples.

- `generation`, `problem_files`, `problems`: the interface for users; `problem_declaration`, `problem_generation`: what it does
- `vocabularies`, `feature_encoders`: which ids samples have; `generation_job`: records
- `sample_sources`, `sample_reading`, `python_samples`, `texts_of_features`: samples
- `dataset_job`, `dataset_files`, `dataset_finishing`: the job; `remote_dataset`, `cluster_generation`
"""
