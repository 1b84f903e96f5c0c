package record

import "strings"

// Statuses of a run and of a node.
const (
	StatusRunning    = "running"
	StatusSucceeded  = "succeeded"
	StatusFailed     = "failed"
	StatusCancelled  = "cancelled"
	StatusSkipped    = "skipped"     // of a node: decided against, such as a later alternative
	StatusNotReached = "not_reached" // of a node: the walk ended, or was to end, before it
	// StatusNotAccepted is of an alternative that ended well and whose outputs the
	// branch did not accept.
	StatusNotAccepted = "not_accepted"
	// StatusUnsupported is of a check whose tool the policy waives: never green.
	StatusUnsupported = "unsupported"
)

// Classes of a failure: who has to act on it.
const (
	ClassSkill          = "skill"
	ClassWorkflow       = "workflow"
	ClassInfrastructure = "infrastructure"
	ClassGrader         = "grader"
	ClassCancelled      = "cancelled"
)

// Reasons. The two that end in a colon take a dimension.
const (
	ReasonMissingArtifact     = "missing_artifact"
	ReasonInvalidArtifact     = "invalid_artifact"
	ReasonProvenanceMismatch  = "provenance_mismatch"
	ReasonWorkerError         = "worker_error"
	ReasonNoFinalEvent        = "no_final_event"
	ReasonActivationUnproven  = "activation_unproven"
	ReasonResourceExceeded    = "resource_exceeded:" // DimMemory DimPIDs DimStdout DimDisk
	ReasonBudgetExceeded      = "budget_exceeded:"   // DimWall DimTurns DimToolCalls DimTokens DimCost DimOutputBytes DimOutputFiles
	ReasonCheckFailed         = "check_failed"       // a blocking check ran and does not hold
	ReasonPredicateError      = "predicate_error"
	ReasonLoopExhausted       = "loop_exhausted"
	ReasonBranchUnaccepted    = "branch_unaccepted"
	ReasonImageMismatch       = "image_mismatch"
	ReasonHarnessMismatch     = "harness_mismatch"
	ReasonRuntimeError        = "runtime_error"
	ReasonSandboxDied         = "sandbox_died"
	ReasonLimitNotEnforced    = "limit_not_enforced"
	ReasonProviderUnreachable = "provider_unreachable"
	ReasonProviderRefused     = "provider_refused"
	ReasonSubagentUnavailable = "subagent_unavailable"
	ReasonToolMissing         = "tool_missing"
	ReasonDiskFull            = "disk_full"
	ReasonCheckError          = "check_error"
	ReasonJudgeError          = "judge_error"
	ReasonOracleError         = "oracle_error"
	ReasonCancelled           = "cancelled"
)

// Dimensions of a budget or of a resource.
const (
	DimMemory      = "memory"
	DimPIDs        = "pids"
	DimStdout      = "stdout"
	DimDisk        = "disk"
	DimWall        = "wall"
	DimTurns       = "turns"
	DimToolCalls   = "tool_calls"
	DimTokens      = "tokens"
	DimCost        = "cost"
	DimOutputBytes = "output_bytes"
	DimOutputFiles = "output_files"
)

// Where a number was measured.
const (
	SourceWorker     = "worker"     // the worker's own events: a claim
	SourceController = "controller" // this program's clock or counter
	SourceSandbox    = "sandbox"    // the runtime, the kernel
	SourceArtifact   = "artifact"   // the frozen bytes
	SourceCheck      = "check"      // a check's process
	SourceBroker     = "broker"     // the broker, from the provider's own usage
	SourceMixed      = "mixed"      // a sum over several
)

// ClassOf is the class of a reason as a node meets it. A budget of the run and
// a predicate of a loop are of class workflow: whoever reports those says so
// itself. A word that is no reason has the class infrastructure, because only
// this program can have written it.
func ClassOf(reason string) string {
	if strings.HasPrefix(reason, ReasonResourceExceeded) || strings.HasPrefix(reason, ReasonBudgetExceeded) {
		return ClassSkill
	}
	switch reason {
	case ReasonMissingArtifact, ReasonInvalidArtifact, ReasonProvenanceMismatch, ReasonWorkerError,
		ReasonNoFinalEvent, ReasonActivationUnproven, ReasonCheckFailed, ReasonPredicateError:
		return ClassSkill
	case ReasonLoopExhausted, ReasonBranchUnaccepted:
		return ClassWorkflow
	case ReasonCheckError, ReasonJudgeError, ReasonOracleError:
		return ClassGrader
	case ReasonCancelled:
		return ClassCancelled
	}
	return ClassInfrastructure
}

// Failure says why something did not succeed. Limit, Observed and Overshoot
// are whole numbers in the unit of the dimension (seconds for wall), "unknown",
// or empty where the reason has none.
type Failure struct {
	Class     string `json:"class"`
	Reason    string `json:"reason"`
	Detail    string `json:"detail"`
	Limit     Count  `json:"limit,omitempty"`
	Observed  Count  `json:"observed,omitempty"`
	Overshoot Count  `json:"overshoot,omitempty"`
	Source    string `json:"source,omitempty"`
}

// Fail is a failure of the class that its reason has.
func Fail(reason, detail string) *Failure {
	return &Failure{Class: ClassOf(reason), Reason: reason, Detail: detail}
}

// Exceeded is a failure of a budget or resource, with its numbers.
func Exceeded(prefix, dimension string, limit, observed int64, source, detail string) *Failure {
	f := Fail(prefix+dimension, detail)
	f.Limit, f.Observed, f.Source = Known(limit), Known(observed), source
	f.Overshoot = Known(max(observed-limit, 0))
	return f
}
