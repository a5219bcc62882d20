"""Jobs: encoding a corpus into token files, so that it can be resumed, divided among machines, and killed at any moment.

The inputs are divided into units (`bpejit.corpus.units`), which contain complete documents. A job encodes its units in order,
and appends ids and document ends to spools, raw files in a hidden folder beside the output. At the end of a unit, a checkpoint
records how long the spools are. When all units are done, the spools become the final files, which appear together.

Read `folder_store` and `job_plan` first: where the parts of a job are, and its states; the interface of a kind of job, and how
a job goes on, by comparing manifests and, if inputs were modified, their text. `url_store` keeps parts at a URL; what is in the
files of both is in `job_folder` and `job_records`, with the interface of the outputs of a job. `running` works on parts and
their units, and joins parts, and `cluster_jobs` does so on Ray.
Encoding is the kind of job whose plan is in `file_encoding`, with `Tokenizer.encode_files`, and whose options are in
`job_options`. Workers run `encode_job`, and a sink there passes documents to `spools`, of which `final_files` makes token
files. The generation of data sets is another kind (`bpejit.t2t.datagen`).
"""
