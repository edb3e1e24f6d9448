// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/text"
)

// Credential is what runs get in their environment if their template names it.
type Credential struct {
	EnvFrom []string          // variables of the server's environment
	Files   map[string]string // files readable only by the server, by the variable that names the copy
	Command []string          // program and arguments; it prints NAME=VALUE lines for one run
}

// CredentialError says which credential is not available. It shows no value.
type CredentialError struct {
	Name string
	Err  error
}

func (e *CredentialError) Error() string { return "credential " + e.Name + ": " + e.Err.Error() }
func (e *CredentialError) Unwrap() error { return e.Err }

// Bounds of a credential.
const (
	maxCredentialOutput = 64 << 10
	maxCredentialFile   = 1 << 20
	credentialTime      = 30 * time.Second
)

// filesVariable stands for the folder with the files of credentials.
const filesVariable = "${files}/"

// given is what credentials add to a run.
type given struct {
	environment map[string]string
	files       map[string][]byte
}

// resolveCredentials resolves those that a run names; the error is a [*CredentialError].
func (o *LocalOptions) resolveCredentials(ctx context.Context, s run.Attempt) (given, error) {
	g := given{map[string]string{}, map[string][]byte{}}
	for _, name := range s.Credentials {
		c, ok := o.Credentials[name]
		err := errors.New("no such credential on the server")
		if ok {
			err = o.credential(ctx, s, name, c, g)
		}
		if err != nil {
			return given{}, &CredentialError{name, err}
		}
	}
	return g, nil
}

func (o *LocalOptions) credential(ctx context.Context, s run.Attempt, credential string, c Credential, g given) error {
	set := func(name, value string) error {
		if err := sandbox.CheckVariable(name); err != nil {
			return err
		}
		if _, ok := g.environment[name]; ok {
			return fmt.Errorf("duplicate variable %s", name)
		}
		g.environment[name] = value
		return nil
	}
	for _, name := range c.EnvFrom {
		if err := sandbox.CheckVariable(name); err != nil {
			return err
		}
		value := o.Getenv(name)
		if value == "" {
			return fmt.Errorf("the variable %s of the server is not set", name)
		}
		if err := set(name, value); err != nil {
			return err
		}
	}
	for name, file := range c.Files {
		b, err := files.ReadPrivate(file, maxCredentialFile)
		if err != nil {
			return err
		}
		if err := set(name, filesVariable+name); err != nil {
			return err
		}
		g.files[name] = b
	}
	if len(c.Command) == 0 {
		return nil
	}
	out, err := o.credentialCommand(ctx, s, credential, c.Command)
	if err != nil {
		return err
	}
	return readVariables(out, set)
}

// credentialCommand runs the command of a credential. Its output, errors too, is never shown.
func (o *LocalOptions) credentialCommand(ctx context.Context, s run.Attempt, credential string, command []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, credentialTime)
	defer cancel()
	out := text.Beginning{Max: maxCredentialOutput}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(o.environment(), "OKARA_RUN="+attemptName(s.Ref), "OKARA_CREDENTIAL="+credential, "OKARA_MODULE="+s.Source.Module)
	if home := o.Getenv("HOME"); home != "" {
		cmd.Env = append(cmd.Env, "HOME="+home)
	}
	cmd.Stdout = &out
	cmd.WaitDelay = time.Second // a process it left may hold the pipe
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("running %s: %w", command[0], err)
	}
	if out.IsCut() {
		return nil, fmt.Errorf("%s prints more than %d bytes", command[0], maxCredentialOutput)
	}
	return out.Bytes(), nil
}

// readVariables reads NAME=VALUE lines, without empty ones and # comments. Errors show no line.
func readVariables(b []byte, set func(name, value string) error) error {
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, maxCredentialOutput+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSuffix(lines.Text(), "\r")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if !ok || !sandbox.IsVariable(name) || strings.ContainsRune(value, 0) {
			return fmt.Errorf("line %d of the command's output is not NAME=VALUE", n)
		}
		if err := set(name, value); err != nil {
			return err
		}
	}
	return lines.Err()
}
