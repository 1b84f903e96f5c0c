// Package spend computes what a plan may spend before anything of it runs: the
// worst case of each phase and of the run, which phases may leave too little to
// which, and which bounds cannot be reached. All numbers are whole micro-dollars,
// seconds and tokens; a part of a micro-dollar is rounded up, as the broker
// does.
//
// It imports the plan alone, and no float.
package spend
