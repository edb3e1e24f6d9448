// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
)

// newRoot makes a command tree with only the commands of this package.
func newRoot(a *cli.App) *cobra.Command {
	reg := cli.NewRegistries(a)
	root := &cobra.Command{Use: "okara", SilenceErrors: true, SilenceUsage: true}
	reg.AddFlags(root.PersistentFlags())
	root.AddGroup(&cobra.Group{ID: "state"})
	doctor := cli.Parent("doctor", "", "")
	root.AddCommand(doctor)
	Add(root, doctor, reg)
	cli.WordUsage(root)
	return root
}

// homeUser is a user of okara with a home directory and an environment.
type homeUser struct{ env map[string]string }

func newHome(t *testing.T, env map[string]string) homeUser {
	t.Helper()
	u := homeUser{map[string]string{"HOME": t.TempDir()}}
	maps.Copy(u.env, env)
	return u
}

// start runs a command line until it ends, or ctx does.
func (u homeUser) start(ctx context.Context, out, errOut io.Writer, args ...string) int {
	a := &cli.App{In: strings.NewReader(""), Out: out, Err: errOut, Getenv: func(k string) string { return u.env[k] }}
	return cli.Run(ctx, a, newRoot, args)
}

func (u homeUser) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = u.start(t.Context(), &out, &errOut, args...)
	if token := u.env["OKARA_TOKEN"]; token != "" && strings.Contains(out.String()+errOut.String(), token) {
		t.Errorf("%v prints its token", args)
	}
	return code, out.String(), errOut.String()
}

// portalUsers are users of a server in memory, with their home directories.
type portalUsers struct{ *portaltest.Server }

func newPortalUsers(t *testing.T) *portalUsers {
	t.Helper()
	return &portalUsers{portaltest.NewServer(t, nil)}
}

// user returns a user who is in groups.
func (h *portalUsers) user(t *testing.T, who string) homeUser {
	t.Helper()
	return newHome(t, map[string]string{"OKARA_SERVER": h.URL, "OKARA_TOKEN": h.Issuer.Token(t, who, strings.Split(who, "-")[0], "team-a")})
}

// as runs a command line with the token of a user.
func (h *portalUsers) as(t *testing.T, who string, args ...string) (code int, out, errOut string) {
	t.Helper()
	return h.user(t, who).run(t, args...)
}

// create launches a template and returns the id.
func (h *portalUsers) create(t *testing.T, who, template string) string {
	t.Helper()
	code, out, errOut := h.as(t, who, "instance", "create", template)
	id, _, ok := strings.Cut(out, " ")
	if code != cli.ExitOK || !ok || len(id) != 10 {
		t.Fatalf("create %s: %d %q %q", template, code, out, errOut)
	}
	return id
}

func newFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// lockedBuffer can be read while a command writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
