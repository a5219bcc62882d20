"""Jobs: encoding a corpus into token files, so that it can be resumed, divided among machines, and killed at any moment.

The inputs are divided into units (`bpejit.corpus.units`), which contain complete documents. A job encodes its units in order,
and appends ids and document ends to spools, raw files in a hidden folder beside the output. At the end of a unit, a checkpoint
records how long the spools are. When all units are done, the spools become the final files, which appear together.

Read `job_plan` first: the interfaces (that of outputs is in `output_files`), and the states of a job. `beginning` decides how a
job goes on, with `job_folder`, `checkpoints` and `job_manifest`; `running` runs and joins parts, which `remote_output` stores
for outputs at URLs, and `cluster_jobs` does so on Ray; `job_report` selects one of these, and has what reports of all kinds of
jobs tell.
Encoding is the kind of job whose plan is in `encoding_plan` and whose outputs are in `encoding_outputs`; `file_encoding` is
`Tokenizer.encode_files`, with the options of `job_options`. `job_run` works on the units of a part (`encode_job`); `job_totals`
has what it counts. Encoded documents pass through `document_tokens` to `spool_sink`, which divides them among spools;
`final_files` makes token files of these, and `output_files` gives them their names. The generation of data sets is another kind
(`bpejit.t2t.datagen`).
"""
