cwlVersion: v1.2
class: CommandLineTool
baseCommand: [wc, -w]
inputs:
  text:
    type: File
    inputBinding:
      position: 1
outputs:
  count:
    type: stdout
stdout: count.txt
