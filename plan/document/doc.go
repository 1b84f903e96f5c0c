// Package document reads JSON and YAML strictly into one tree of values.
//
// It is for bytes that somebody else wrote (a worker's artifact, a manifest, a
// check's output) and that two readers must not understand in two ways. What
// is ambiguous is refused: a second document, a key that is there twice or
// differs from another only by letter case, text that is no valid UTF-8. What
// is dear is bounded: bytes, nesting, the number of values, and the size of
// numbers. The text of a number is kept, so that it can be compared exactly.
//
// It imports no other package of this module, and does no I/O.
package document
