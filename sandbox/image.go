package sandbox

import (
	"maps"
	"slices"
)

// Labels of an image's config, which say what it is for.
const (
	// LabelProtocol is the version of the runner contract that the image was
	// made for.
	LabelProtocol = "foundry.protocol"
	// LabelHarness begins the label of an agent in the image; the adapter's name
	// follows, and the value is the agent's version.
	LabelHarness = "foundry.harness."
	// LabelTool begins the label of a tool in the image; its name follows, and
	// the value is its version.
	LabelTool = "foundry.tool."
)

// Protocol is the value of LabelProtocol that this program works with.
const Protocol = "2"

// ImageMismatch is the error of an image that is not to be had, or is not what
// the plan takes it for. Nothing was started.
type ImageMismatch struct {
	Image   string // as the plan has it
	Problem string
	Fix     string
}

func (e *ImageMismatch) Error() string {
	return "sandbox: the image " + e.Image + " " + e.Problem + "; " + e.Fix
}

// CheckLabels compares the labels of an image's config with those that a task
// requires (Task.ImageLabels). The protocol is compared wherever the image
// states one.
func CheckLabels(image string, have, want map[string]string) error {
	required := map[string]string{}
	if _, stated := have[LabelProtocol]; stated {
		required[LabelProtocol] = Protocol
	}
	maps.Copy(required, want)
	for _, name := range slices.Sorted(maps.Keys(required)) {
		value, there := have[name]
		switch {
		case !there:
			return &ImageMismatch{image, "has no label " + name, "use an image that holds it, and whose label says so (`foundry image ls` shows the labels)"}
		case required[name] != "" && value != required[name]:
			return &ImageMismatch{image, "has the label " + name + " = " + value + ", and " + required[name] + " is needed", "use an image made for it, or change the version that the policy pins"}
		}
	}
	return nil
}
