package image

import "embed"

// Recipes are the files that say what a worker image is made of:
// ADAPTER/VERSION/package.json and package-lock.json with what npm installs, and
// debian.lock.json with the packages of the base.
//
//go:embed pi/*/package.json pi/*/package-lock.json debian.lock.json
var Recipes embed.FS
