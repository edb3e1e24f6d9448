// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

const (
	helperPrefix = "docker-credential-"

	// maxHelperAnswer bounds a helper's answer, in bytes; ECR passwords and JWTs have a few KiB.
	maxHelperAnswer = 64 << 10

	// helperGrace is how long pipes of a stopped helper may stay open, as of programs it started.
	helperGrace = time.Second

	// tokenUser is the user name by which a helper marks the secret as an identity token.
	tokenUser = "<token>"
)

// errNoEntry means that a helper works but has no entry for a registry.
var errNoEntry = errors.New("no entry")

// helperProgram runs one Docker credential helper, docker-credential-NAME.
type helperProgram struct {
	name    string
	path    string // the value of PATH
	goos    string
	timeout time.Duration
}

// helperAnswer is the JSON of the get and store operations of the protocol.
type helperAnswer struct {
	ServerURL string
	Username  string
	Secret    string
}

// getCredential asks under each key that a tool may have used; errNoEntry if none is there.
func (h helperProgram) getCredential(ctx context.Context, host string) (oci.Credential, error) {
	for _, k := range helperKeys(host) {
		if c, err := h.getKey(ctx, k); !errors.Is(err, errNoEntry) {
			return c, err
		}
	}
	return oci.Credential{}, errNoEntry
}

func (h helperProgram) getKey(ctx context.Context, serverKey string) (oci.Credential, error) {
	out, err := h.runHelper(ctx, "get", []byte(serverKey))
	if err != nil {
		return oci.Credential{}, err
	}
	var a helperAnswer
	if json.NewDecoder(bytes.NewReader(out)).Decode(&a) != nil { // what follows is ignored, as in Docker
		return oci.Credential{}, fmt.Errorf("credential helper %s: the response is not the JSON of the helper protocol", h.name)
	}
	switch {
	case a.Secret == "":
		return oci.Credential{}, errNoEntry
	case a.Username == tokenUser:
		return oci.Credential{IdentityToken: a.Secret}, nil
	}
	return oci.Credential{Username: a.Username, Password: a.Secret}, nil
}

// storeCredential saves a credential in the helper. The protocol lacks registry tokens.
func (h helperProgram) storeCredential(ctx context.Context, serverKey string, c oci.Credential) error {
	a := helperAnswer{ServerURL: serverKey, Username: c.Username, Secret: c.Password}
	if c.IdentityToken != "" {
		a.Username = tokenUser
		a.Secret = c.IdentityToken
	}
	in, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("credential helper %s: %w", h.name, err)
	}
	_, err = h.runHelper(ctx, "store", in)
	return err
}

// eraseAll removes a host under every key that the helper has for it.
func (h helperProgram) eraseAll(ctx context.Context, host string) (erased bool, err error) {
	for _, k := range helperKeys(host) {
		_, err := h.getKey(ctx, k)
		if errors.Is(err, errNoEntry) {
			continue
		}
		if err == nil {
			_, err = h.runHelper(ctx, "erase", []byte(k))
		}
		if err != nil {
			return erased, err
		}
		erased = true
	}
	return erased, nil
}

// runHelper starts the helper once, without its stderr, where some helpers log secrets.
func (h helperProgram) runHelper(ctx context.Context, verb string, in []byte) ([]byte, error) {
	program, err := h.findProgram()
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	out := text.Beginning{Max: maxHelperAnswer}
	cmd := exec.CommandContext(limited, program, verb)
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stdout = &out
	cmd.Stderr = io.Discard
	cmd.WaitDelay = helperGrace
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil:
		return nil, fmt.Errorf("credential helper %s: no response to %q within %s", h.name, verb, h.timeout)
	case out.IsCut():
		return nil, fmt.Errorf("credential helper %s: the response exceeds %d bytes", h.name, maxHelperAnswer)
	case err == nil:
		return out.Bytes(), nil
	}
	// The protocol reports errors on stdout and defines this text.
	said := strings.TrimSpace(string(out.Bytes()))
	if strings.Contains(strings.ToLower(said), "credentials not found") {
		return nil, errNoEntry
	}
	return nil, fmt.Errorf("credential helper %s: %w%s", h.name, err, quoteHelper(said))
}

// findProgram looks in PATH, but not below the working directory, which must not supply a helper.
func (h helperProgram) findProgram() (string, error) {
	if !validHelper().MatchString(h.name) {
		return "", fmt.Errorf("credential helper %q: only letters, digits, dots, dashes and underscores are allowed in the name", h.name)
	}
	file := helperPrefix + h.name
	if h.goos == "windows" {
		file += ".exe"
	}
	for _, dir := range filepath.SplitList(h.path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		full := filepath.Join(dir, file)
		info, err := os.Stat(full)
		if err == nil && info.Mode().IsRegular() && (h.goos == "windows" || info.Mode()&0o111 != 0) {
			return full, nil
		}
	}
	return "", fmt.Errorf("credential helper %s: %s is not on PATH", h.name, file)
}

var validHelper = text.Pattern(`^[A-Za-z0-9._-]+$`)

// helperKeys returns the keys under which tools store a registry in a helper: Docker and ORAS
// without a scheme, OpenTofu with one, and Docker Hub under its historical URL.
func helperKeys(host string) []string {
	if host == hubHost {
		return []string{hubKey, hubHost, "docker.io"}
	}
	return []string{host, "https://" + host}
}

// quoteHelper returns the helper's message in parentheses, unless it may be an answer, a secret.
func quoteHelper(said string) string {
	said, _, _ = strings.Cut(said, "\n")
	if said == "" || strings.ContainsAny(said, "{}") {
		return ""
	}
	return fmt.Sprintf(" (%q)", text.Clip(said, 200))
}
