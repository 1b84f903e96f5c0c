// Package diag holds the compiler's diagnostics: what is wrong, where, why and
// what to do about it, in an order that does not depend on how it was found.
//
// It imports nothing of this module, neither hcl nor os.
package diag
