// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/must"
)

func credentialSpec() run.Attempt {
	return run.Attempt{Ref: lifecycle.Ref{ID: "abc", N: 1, Attempt: 2}, Credentials: []string{"x"}, Source: template.Source{Module: "net/vpc/aws"}}
}

func TestCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gcp.json")
	runtest.MustWrite(t, file, `{"key":1}`)
	env := map[string]string{"AWS_ACCESS_KEY_ID": "AK", "OTHER": "not given"}
	o := &LocalOptions{
		Getenv: func(name string) string { return env[name] },
		Credentials: map[string]Credential{"x": {
			EnvFrom: []string{"AWS_ACCESS_KEY_ID"},
			Files:   map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": file},
			Command: []string{"/bin/sh", "-c", `echo "# for $OKARA_RUN"; echo "TOKEN=a=b $OKARA_CREDENTIAL"; echo; echo "export RUN=$OKARA_RUN$OTHER"`},
		}},
	}
	g := must.Get(o.resolveCredentials(t.Context(), credentialSpec()))(t)
	want := map[string]string{
		"AWS_ACCESS_KEY_ID": "AK", "GOOGLE_APPLICATION_CREDENTIALS": "${files}/GOOGLE_APPLICATION_CREDENTIALS", "TOKEN": "a=b x", "RUN": "abc-1-2",
	}
	must.Match(t, "environment", g.environment, want)
	must.Match(t, "files", g.files, map[string][]byte{"GOOGLE_APPLICATION_CREDENTIALS": []byte(`{"key":1}`)})
}

// TestCredentialsRefused: each error names what is missing, but no value.
func TestCredentialsRefused(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	runtest.MustWrite(t, open, "planted-secret")
	must.Succeed(t, os.Chmod(open, 0o644))
	sh := func(script string) Credential { return Credential{Command: []string{"/bin/sh", "-c", script}} }
	for _, c := range []struct {
		name, want string
		credential Credential
	}{
		{"variable", "the variable UNSET of the server is not set", Credential{EnvFrom: []string{"UNSET"}}},
		{"own variable", "PATH is set by the run itself", Credential{EnvFrom: []string{"PATH"}}},
		{"no file", "no such file", Credential{Files: map[string]string{"A": "/nowhere"}}},
		{"open file", "may be read by others", Credential{Files: map[string]string{"A": open}}},
		{"no program", "running /nowhere", Credential{Command: []string{"/nowhere"}}},
		{"command fails", "exit status 3", sh("echo planted-secret; echo planted-secret >&2; exit 3")},
		{"no variable", "line 2 of the command's output is not NAME=VALUE", sh("echo A=1; echo planted-secret")},
		{"twice", "duplicate variable A", sh("echo A=planted-secret; echo A=planted-secret")},
		{"loader", "LD_PRELOAD is set by the run itself", sh("echo LD_PRELOAD=planted-secret")},
		{"endpoint", "AWS_ENDPOINT_URL_S3 is set by the run itself", sh("echo AWS_ENDPOINT_URL_S3=planted-secret")},
		{"too much", "more than 65536 bytes", sh("head -c 70000 /dev/zero | tr '\\0' a")},
		{"what it leaves", "WaitDelay expired", sh("sleep 7243 & echo A=planted-secret")},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &LocalOptions{Getenv: func(string) string { return "" }, Credentials: map[string]Credential{"x": c.credential}}
			g, err := o.resolveCredentials(t.Context(), credentialSpec())
			if e, ok := errors.AsType[*CredentialError](err); !ok || e.Name != "x" || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "planted") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if len(g.environment) > 0 {
				t.Errorf("given: %v", g.environment)
			}
		})
	}
	if err := runtest.Kill(runtest.Running(t, "7243")); err != nil {
		t.Error(err)
	}
	if _, err := (&LocalOptions{}).resolveCredentials(t.Context(), credentialSpec()); err == nil || !strings.Contains(err.Error(), "credential x: no such credential on the server") {
		t.Errorf("got %v", err)
	}
}

func FuzzReadVariables(f *testing.F) {
	for _, s := range []string{"A=1\n", "# x\n\nexport B=2\r\n", "=\n", "A\n", "A=1\x00\n", "é=1\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := readVariables(b, func(name, value string) error {
			if !sandbox.IsVariable(name) || strings.ContainsAny(value, "\x00\n") {
				t.Errorf("%q=%q", name, value)
			}
			return nil
		})
		if err != nil && len(b) > 0 && strings.Contains(string(b), err.Error()) {
			t.Errorf("the error repeats what it read: %v", err)
		}
	})
}

func FuzzParseHandle(f *testing.F) {
	f.Add(string(parsedHandle{machine: machine{"host", "boot", "1"}, Process: sandbox.Process{PID: 1, Start: 2}, At: 3}.String()))
	f.Add(`{"pid":1e99}`)
	f.Fuzz(func(t *testing.T, h string) {
		p, err := parseHandle(run.Handle(h))
		if err != nil {
			return
		}
		if len(p.Host) > maxHost {
			p.Host = p.Host[:maxHost]
		}
		if again := p.String(); len(again) < 256 {
			if q, err := parseHandle(again); err != nil || q.Process != p.Process {
				t.Errorf("%q became %q, %v", h, again, err)
			}
		}
	})
}
