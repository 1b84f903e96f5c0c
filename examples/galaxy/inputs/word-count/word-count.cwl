cwlVersion: v1.2
class: Workflow
doc: Count the words of a text.
inputs:
  text: File
outputs:
  count:
    type: File
    outputSource: count-words/count
steps:
  count-words:
    run: wc.cwl
    in:
      text: text
    out: [count]
