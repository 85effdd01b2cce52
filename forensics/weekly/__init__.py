"""Trends: what was read is kept by weeks, and each week's findings stand beside the earlier ones.

`weeks` names weeks; `holding` and `shelf` keep the files of a store; `manifest` knows what was read
and `rulebook` by which rules; `taking` finds what is new, `superseding` what has only grown, and
`keeping` merges the events in; `building` makes the folder of a week; `store` does it all in order.

`summaries` says of one week what the others are compared with, out of `covering`, `signals`,
`nights` and `topics`; `recurrence`, `verdicts` and `changes` compare, as far as `ratios` allows;
`notes` knows what people have said. `page`, `index` and `sections` draw; `comparing` takes any two
windows.
"""
