# How each required tool is had. The digest of gxwf is a place to fill in: the
# policies compile with it, and a run of a check would not find it.
tool "foundry" { by = "schema" } # the corpus' validator: its published schema in its place
tool "gxwf" { image = "registry.example/gxwf@sha256:0000000000000000000000000000000000000000000000000000000000000000" }
tool "planemo" { unavailable = "needs a Galaxy; release lane only" }
tool "cwltool" { image = "registry.example/cwltool@sha256:0000000000000000000000000000000000000000000000000000000000000000" }
tool "cwl-utils" { unavailable = "the worker's image brings it" }
