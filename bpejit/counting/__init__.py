"""Count the pre-tokens of a corpus; counts as data of their own: files, merging, spilling to disk, and tab-separated text.

`count_corpus` counts: workers run a `count_job` with a `pretoken_counter` each, whose `hash_tables` are added up;
`count_options` has the options, and `counting_plan` is the kind of job that counts on Ray, and goes on after a kill.

A sorted table of any size is a *stream*: an iterator of `PretokenTable` blocks whose pre-tokens ascend by bytes, within a block
and from one to the next. `table_streams` merges streams, writes them to files and reads them.
"""
