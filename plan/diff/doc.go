// Package diff says what differs between two plans, by the ids of their parts
// and not by lines, and whether each difference widens what may be done, spent
// or accepted, narrows it, or does neither.
//
// What a difference means stands in one table with a row for every field of a
// plan; see [Rows]. What cannot be shown to be narrower widens.
//
// It imports plan and predicates, and must not import anything else of this
// module. It reads no file: the bytes that a plan names come through
// [Side.Open].
package diff
