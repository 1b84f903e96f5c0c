// Package predicates evaluates the closed predicate set of a plan over recorded
// facts. It is pure: it runs nothing, reads nothing and knows no time, so every
// decision can be replayed from the record, and the same facts give the same
// result and the same trace.
//
// It fails closed. A fact that is not recorded, a pointer that leads nowhere, a
// comparison of two types: each is an Error (the reason predicate_error), never
// a false that a "not" would turn into a true. Only exists asks for absence.
//
// It imports plan and plan/document, and must not import anything else of this
// module.
package predicates
