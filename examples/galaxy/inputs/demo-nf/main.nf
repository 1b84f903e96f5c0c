nextflow.enable.dsl = 2

params.reads = "reads/*.fastq"

process COUNT {
    input:
    path reads

    output:
    path "count.txt"

    script:
    """
    wc -l $reads > count.txt
    """
}

workflow {
    COUNT(Channel.fromPath(params.reads))
}
