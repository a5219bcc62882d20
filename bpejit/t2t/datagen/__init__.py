"""Generation of training data as Tensor2Tensor did: problems, vocabularies, samples, and shards of encoded examples.

- `problems`, `problem_files`: what is generated; `vocabularies`, `feature_encoders`: with which ids
- `sample_sources`, `sample_reading`, `python_samples`, `texts_of_features`: samples; `generation_job`: records
- `generation`, `dataset_job`, `dataset_files`, `dataset_finishing`: the job; `remote_dataset`, `cluster_generation`
"""
