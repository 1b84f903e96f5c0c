// Counts the lines of every text file that it is given.
nextflow.enable.dsl = 2

params.input  = null
params.outdir = 'results'

process COUNT_LINES {
    container 'quay.io/biocontainers/coreutils:9.5'

    input:
    path text

    output:
    path "${text.baseName}.count"

    script:
    """
    wc -l < ${text} > ${text.baseName}.count
    """
}

workflow {
    COUNT_LINES(Channel.fromPath(params.input))
}
