package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// maxCredential bounds a file with a credential.
const maxCredential = 64 << 10

// credential is the value of a credential: of the environment variable of its
// name, or of the file that NAME_FILE names. It goes to the broker and nowhere
// else.
func credential(name string) (string, error) {
	if v := os.Getenv(name); v != "" {
		return v, nil
	}
	path := os.Getenv(name + "_FILE")
	if path == "" {
		return "", fmt.Errorf("it is not set: set the environment variable %s, or %s_FILE to the path of a file that holds it", name, name)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxCredential+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxCredential {
		return "", fmt.Errorf("%s has more than %d bytes", path, maxCredential)
	}
	return strings.TrimSpace(string(data)), nil
}

// credentialSet reports whether there is one, without reading it.
func credentialSet(name string) bool { return os.Getenv(name) != "" || os.Getenv(name+"_FILE") != "" }
