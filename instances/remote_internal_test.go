// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

const runsText = "anonymous = []\ninstances {}\ntfe {\n  runs = \"local\"\n}\n"

func readRuns(t *testing.T, words string) (*server.Settings, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "okara.hcl")
	must.Succeed(t, os.WriteFile(file, []byte(words), 0o600))
	s, _ := newSettings()
	err := s.Read(file)
	if err == nil {
		err = server.Check(s, instanceEnv(false))
	}
	return s, err
}

// TestRunsRefused: no start where uploaded code could reach more than its own.
func TestRunsRefused(t *testing.T) {
	const local = "executor \"local\" {}\n"
	for _, tt := range []struct{ name, text, want string }{
		{"another executor", "tfe {\n  runs = \"flux\"\n}", `okara.hcl:1: runs = "flux": this server has only the local executor`},
		{"off", "tfe {\n  enabled = false\n  runs = \"local\"\n}", "has no effect with enabled = false"},
		{"no instances", "tfe {\n  runs = \"local\"\n}", "hint: add instances {} and executor \"local\" {}"},
		{"a portal", "instances {\n  role = \"portal\"\n}\ntfe {\n  runs = \"local\"\n}", "a portal does not execute runs"},
		{"a runner", "instances {\n  role = \"runner\"\n}\ntfe {\n  runs = \"local\"\n}", "does not serve tfe.v2"},
		{"no isolation", runsText + "executor \"local\" {\n  isolation = \"none\"\n}", "okara.hcl:6: with isolation = \"none\" any user who may run plans here could read the keys"},
		{"a time that is none", "anonymous = []\ninstances {}\n" + local + "tfe {\n  runs = \"local\"\n  run_timeout = \"soon\"\n}", `run_timeout "soon"`},
		{"anonymous may read", strings.Replace(runsText, "[]", `["read:module:**"]`, 1) + local, "which could read:module:** here without a token, as every caller can"},
		{"a credential that is none", runsText + local + "organization \"acme\" {\n  credentials = [\"aws\"]\n}", `no credential block "aws"`},
		{"encryption without runs", "tfe {\n  allow_encryption = true\n}", "allow_encryption requires runs on the server"},
		{"an unknown consent", "tfe {\n  earlier_settings = \"yes\"\n}", `earlier_settings = "yes": must be "move" or "ignore"`},
		{"a lock without runs", "organization \"acme\" {\n  require_module_lock = true\n}", "require_module_lock is for runs on the server"},
		{"credentials without runs", "organization \"acme\" {\n  credentials = [\"aws\"]\n}", "this server runs no plans for the tools"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readRuns(t, tt.text)
			if _, ok := errors.AsType[*syntax.SettingError](err); !ok || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	for _, isolation := range []string{"", "isolation = \"sandbox\"", "isolation = \"user\"\n  users = [1001]", "isolation = \"wrap\"\n  wrap = [\"x\"]"} {
		words := runsText + "executor \"local\" {\n  " + isolation + "\n}\ncredential \"aws\" {\n  env_from = [\"A\"]\n}\norganization \"acme\" {\n  execution_mode = \"remote\"\n  credentials = [\"aws\"]\n  require_module_lock = true\n}"
		s, err := readRuns(t, words)
		if err != nil || s.Cloud.TFE.RunTimeout.Value() != time.Hour {
			t.Errorf("%s: %v, %v", isolation, err, s.Cloud.TFE.RunTimeout)
		}
		r := newRemoteRuns(&platform{base: server.Base{Settings: s}})
		for name, required := range map[string]bool{"acme": true, "other": false} {
			if of, _, err := r.organizationTemplate(name); err != nil || of.RequireLock != required {
				t.Errorf("the runs of %s: %+v, %v", name, of, err)
			}
		}
	}
	if server.Defaults().Cloud.TFE.Remote() {
		t.Error("runs are on where nothing says so")
	}
}

// TestRemoteScopes shows that a plan may only read the state, and that an apply may write it.
func TestRemoteScopes(t *testing.T) {
	for kind, want := range map[lifecycle.RunKind]rights.Action{lifecycle.RunPlan: rights.Read, lifecycle.RunApply: rights.Write} {
		s := run.Attempt{Ref: lifecycle.Ref{Kind: kind}, Machine: run.Machine{Remote: &run.Remote{Organization: "acme", Workspace: "prod"}}}
		if got := remoteScopes(s); !slices.Equal(got, []rights.Scope{{Action: want, Kind: addr.KindState, Glob: "acme/prod"}}) {
			t.Errorf("%s may %v", kind, got)
		}
	}
}

// TestRemoteOver: an attempt's token ends with it, also while its plan waits.
func TestRemoteOver(t *testing.T) {
	now := time.Now()
	rec := &lifecycle.Record{
		Workspace: "prod", Phase: lifecycle.Updating, Numbered: 5,
		Run:  &lifecycle.Run{N: 5, Attempt: 2, StartedAt: now},
		Open: []lifecycle.Run{{N: 3, Attempt: 1, Plan: "sha256:p", StartedAt: now, EndedAt: now}, {N: 4}},
		Runs: []lifecycle.Run{{N: 2, Attempt: 1, Result: lifecycle.Done}},
	}
	for _, tt := range []struct {
		n, attempt int
		want       bool
	}{
		{5, 2, false}, {5, 1, true}, {5, 3, false}, // the last: this copy is behind
		{3, 1, true}, {3, 2, false}, {2, 1, true}, {1, 1, true}, {4, 1, false}, {6, 1, false},
	} {
		if got := rec.HasEnded(tt.n, tt.attempt); got != tt.want {
			t.Errorf("attempt %d of run %d is over: %v", tt.attempt, tt.n, got)
		}
	}
	rec.Phase = lifecycle.Destroyed
	if !rec.HasEnded(5, 2) {
		t.Error("a run of a workspace that is gone is not over")
	}
}

func TestRemoteStatus(t *testing.T) {
	now := time.Now()
	for want, u := range map[tfe.RunStatus]lifecycle.Run{
		tfe.RunPending:            {Kind: lifecycle.RunPlan},
		tfe.RunPlanning:           {Kind: lifecycle.RunPlan, StartedAt: now},
		tfe.RunPlanned:            {Kind: lifecycle.RunPlan, StartedAt: now, EndedAt: now, Plan: "p", Ask: &lifecycle.Ask{}},
		tfe.RunPlannedAndSaved:    {Kind: lifecycle.RunPlan, StartedAt: now, EndedAt: now, Plan: "p", Ask: &lifecycle.Ask{Save: true}},
		tfe.RunConfirmed:          {Kind: lifecycle.RunApply, Plan: "p", Approved: "p"},
		tfe.RunApplying:           {Kind: lifecycle.RunApply, StartedAt: now, Plan: "p", Approved: "p"},
		tfe.RunPlannedAndFinished: {Kind: lifecycle.RunPlan, Result: lifecycle.Done},
		tfe.RunApplied:            {Kind: lifecycle.RunApply, Result: lifecycle.Done},
		tfe.RunErrored:            {Kind: lifecycle.RunApply, Result: lifecycle.Lost},
		tfe.RunDiscarded:          {Kind: lifecycle.RunPlan, Result: lifecycle.Discarded},
		tfe.RunCanceled:           {Kind: lifecycle.RunPlan, Result: lifecycle.Cancelled},
	} {
		if got := remoteStatus(&u); got != want {
			t.Errorf("%+v is %s, want %s", u, got, want)
		}
	}
}

func TestRunError(t *testing.T) {
	for _, tt := range []struct{ err, want error }{
		{lifecycle.ErrNotFound, tfe.ErrNoRun}, {lifecycle.ErrPhase, tfe.ErrRunStatus}, {lifecycle.ErrStalePlan, tfe.ErrRunStatus},
		{lifecycle.ErrFull, tfe.ErrTooManyRuns}, {lifecycle.ErrNoLeader, oci.ErrUnavailable}, {nil, nil},
	} {
		if got := runError(tt.err); !errors.Is(got, tt.want) || tt.want == nil && got != nil {
			t.Errorf("%v became %v", tt.err, got)
		}
	}
}

// TestFollow shows that a read of a log waits for more, so that its reader need not poll.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		reads := 0
		empty := func() ([]byte, bool, error) {
			reads++
			return nil, false, nil
		}
		if part, over, err := followLog(t.Context(), func() <-chan struct{} { return never }, empty); len(part) > 0 || over || err != nil {
			t.Errorf("a log of which nothing comes: %q, %t, %v", part, over, err)
		}
		if reads < 2 || reads > 101 {
			t.Errorf("%d looks, want 2 to 101", reads)
		}

		reads = 0
		slow := func() ([]byte, bool, error) { time.Sleep(400 * time.Millisecond); return empty() }
		if _, _, err := followLog(t.Context(), func() <-chan struct{} { return never }, slow); err != nil || reads > 2 {
			t.Errorf("%d looks that take long, %v, want at most 2", reads, err)
		}

		reads = 0
		changed := make(chan struct{})
		end := func() ([]byte, bool, error) {
			if reads++; reads == 1 {
				close(changed)
				return nil, false, nil
			}
			return nil, true, nil
		}
		if _, over, err := followLog(t.Context(), func() <-chan struct{} { return changed }, end); !over || err != nil || reads != 2 {
			t.Errorf("a run that ends: %t, %v after %d looks", over, err, reads)
		}

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		reads = 0
		if _, _, err := followLog(ctx, func() <-chan struct{} { return never }, empty); err != nil || reads != 1 {
			t.Errorf("a reader that has gone: %v after %d looks", err, reads)
		}
	})
}

// TestLedgerFindings shows what is reported of the leader and of what delays expiry.
func TestLedgerFindings(t *testing.T) {
	for name, c := range map[string]struct {
		status ledger.Status
		want   string // verdict and state of each finding, separated by semicolons
	}{
		"leads":           {ledger.Status{Leading: true, Held: "the clock jumped"}, "0 this replica is the leader;2 the clock jumped"},
		"follows":         {ledger.Status{Leader: "https://a.example.com", Aside: map[string]string{"x": "y"}}, "0 led by https://a.example.com;2 1 are set aside"},
		"refused to lead": {ledger.Status{Refused: errors.New("no keys")}, "2 no leader: no keys"},
		"no leader":       {ledger.Status{}, "1 no leader is known"},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := ledgerFindings(c.status), strings.Split(c.want, ";")
			if len(got) != len(want) {
				t.Fatalf("findings %+v, want %q", got, want)
			}
			for i, f := range got {
				verdict, state, _ := strings.Cut(want[i], " ")
				if int(f.Verdict) != int(verdict[0]-'0') || !strings.Contains(f.State, state) || f.About == "" || f.Meaning == "" || f.Verdict != web.Fine && f.Do == "" {
					t.Errorf("finding %+v, want %s", f, want[i])
				}
			}
		})
	}
}

// TestRunRegistry shows what the child of a run may do in the built-in registry.
func TestRunRegistry(t *testing.T) {
	keys := must.Get(keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}))(t)
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &runRegistry{
		registry: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
		layout:   addr.Layout{Prefix: "p"}, keys: keys, now: func() time.Time { return now },
	}
	const own, other = "p/instances/sandbox/vpc/k7m2p9x4tq", "p/instances/sandbox/vpc/a234567890"
	good := must.Get(s.socketToken(own, now.Add(time.Hour)))(t)
	old := must.Get(s.socketToken(own, now))(t)
	login := must.Get(keys.Seal("login token", socketToken{own, now.Add(time.Hour).Unix()}))(t)
	for _, tt := range []struct {
		name, method, target, authorization string
		want                                int
	}{
		{"root", "GET", "/v2/", "Bearer " + good, 418},
		{"own tag", "PUT", "/v2/" + own + "/manifests/run-k7m2p9x4tq-1-1", "Bearer " + good, 418},
		{"own upload", "POST", "/v2/" + own + "/blobs/uploads/", "bearer " + good, 418},
		{"own, deleted", "DELETE", "/v2/" + own + "/manifests/x", "Bearer " + good, 418},
		{"the ledger", "GET", "/v2/p/ledger/tags/list", "Bearer " + good, 418},
		{"a later ledger", "HEAD", "/v2/p/ledger-3/manifests/x", "Bearer " + good, 418},
		{"write the ledger", "PUT", "/v2/p/ledger/manifests/x", "Bearer " + good, 403},
		{"another instance", "GET", "/v2/" + other + "/tags/list", "Bearer " + good, 403},
		{"a state", "GET", "/v2/p/state/shop/tags/list", "Bearer " + good, 403},
		{"a module", "GET", "/v2/p/modules/net/vpc/aws/tags/list", "Bearer " + good, 403},
		{"mount from another", "POST", "/v2/" + own + "/blobs/uploads/?mount=sha256:x&from=" + other, "Bearer " + good, 403},
		{"the catalog of all", "GET", "/v2/_catalog", "Bearer " + good, 403},
		{"through a folder", "GET", "/v2/" + own + "/../a234567890/tags/list", "Bearer " + good, 403},
		{"elsewhere", "GET", "/metrics", "Bearer " + good, 403},
		{"no token", "GET", "/v2/", "", 401},
		{"as a password", "GET", "/v2/", "Basic " + good, 401},
		{"expired", "GET", "/v2/", "Bearer " + old, 401},
		{"of another purpose", "GET", "/v2/", "Bearer " + login, 401},
		{"changed", "GET", "/v2/", "Bearer " + good[:len(good)-2] + "AA", 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, "http://okara.invalid"+tt.target, nil)
			if tt.authorization != "" {
				r.Header.Set("Authorization", tt.authorization)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			must.Equal(t, "value", w.Code, tt.want)
			if challenge := w.Header().Get("WWW-Authenticate"); (challenge != "") != (tt.want == 401) {
				t.Errorf("challenge %q", challenge)
			}
		})
	}
}

// TestRegistryOfRuns: a run reaches the registry as the server does, with its files.
func TestRegistryOfRuns(t *testing.T) {
	var credential oci.Credential
	l := &platform{base: server.Base{Env: server.Env{Outside: server.Outside{
		Transport: httpserve.TransportOptions{ClientCert: "client.pem", ClientKey: "/etc/client.key", CertDirs: []string{"/etc/docker/certs.d", "certs.d"}},
		OCI:       oci.Options{Credential: func(context.Context, string, string) (oci.Credential, error) { return credential, nil }},
	}}}}
	s := run.Attempt{Machine: run.Machine{Repository: "registry.example.com/acme/instances/sandbox/vpc/abc"}}
	credential = oci.Credential{Username: "ci", Password: "secret"}
	got := must.Get(l.registryAccess(t.Context(), s))(t)
	here := must.Get(filepath.Abs("."))(t)
	want := sandbox.Registry{
		Prefix: "registry.example.com", Username: "ci", Password: "secret", ClientCert: filepath.Join(here, "client.pem"), ClientKey: "/etc/client.key",
		CertDirs: []string{"/etc/docker/certs.d", filepath.Join(here, "certs.d")},
	}
	must.Match(t, "value", got, want)
	credential = oci.Credential{IdentityToken: "id"}
	if _, err := l.registryAccess(t.Context(), s); err == nil || !strings.Contains(err.Error(), "identity token") || !strings.Contains(err.Error(), "\nhint: ") {
		t.Errorf("an identity token: %v", err)
	}
}
