// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/instances/settings"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

// runsRemote reports whether plans and applies of the tools run here.
func (s *Settings) runsRemote() bool { return s.TFE.on() && s.TFE.Runs != "" }

// checkRuns refuses to run what anybody uploads where it could reach what is not its
// own: nobody vouches for its code.
func (s *Settings) checkRuns() error {
	t := s.TFE
	refused := func(text string, args ...any) error { return syntax.WrongAt(t.Range, fmt.Errorf(text, args...)) }
	if t.Runs == "" {
		if t.AllowEncryption {
			return refused("allow_encryption is of runs on the server, and there are none\nhint: set runs = \"local\", or leave out allow_encryption")
		}
		return nil
	}
	switch {
	case !t.on():
		return refused("runs = %q means nothing with enabled = false", t.Runs)
	case t.Runs != settings.LocalExecutor:
		return refused("runs = %q: this server has the executor local only", t.Runs)
	case s.Launch.Instances == nil:
		return refused("runs of the tools are kept with those of instances, and there is no block instances\nhint: add instances {} and executor \"local\" {}")
	case s.Launch.Instances.Role == settings.RolePortal:
		return refused("a portal runs nothing\nhint: leave out runs here; it belongs to the servers of role all")
	case s.Launch.Instances.Role == settings.RoleRunner:
		return refused("a server of role runner has no tfe.v2\nhint: leave out runs here; it belongs to the servers of role all")
	}
	for _, e := range s.Launch.Executors {
		if e.Name == settings.LocalExecutor && e.Isolation == run.NoIsolation {
			return syntax.WrongAt(e.Range, errors.New("with isolation = \"none\" whoever may run plans here could read the keys of this server, and what other runs have\n"+
				"hint: use isolation = \"sandbox\", \"user\" or \"wrap\", or leave out runs in the block tfe"))
		}
	}
	return syntax.CheckDuration(t.Range, "run_timeout", t.RunTimeout)
}

// checkAnonymous refuses rights of everybody where configurations run that were
// uploaded: their code would have them too.
func (s *Settings) checkAnonymous(p *access.Policy) error {
	if !s.runsRemote() || len(p.Anonymous) == 0 {
		return nil
	}
	return syntax.WrongAt(s.TFE.Range, fmt.Errorf("runs = %q runs code that is uploaded, and everybody may %s here without a token: so may that code\n"+
		"hint: set anonymous = [], or leave out runs", s.TFE.Runs, p.Anonymous[0]))
}

// checkCredentials refuses credentials that runs of an organization cannot have.
func (s *Settings) checkCredentials(o Organization) error {
	if len(o.Credentials) > 0 && !s.runsRemote() {
		return syntax.WrongAt(o.Range, errors.New("credentials are for runs on the server, and this server runs no plans for the tools\nhint: set tfe { runs = \"local\" }, or leave out credentials; the tools use those of the machine that they are started on"))
	}
	for _, name := range o.Credentials {
		if !slices.ContainsFunc(s.Launch.Credentials, func(c settings.Credential) bool { return c.Name == name }) {
			return syntax.WrongAt(o.Range, fmt.Errorf("there is no block credential %q", name))
		}
	}
	return nil
}

// remoteRuns makes the runs of the tools a part of tfe.v2.
func (s *Settings) remoteRuns(o *Options, l *launcher) {
	if !s.runsRemote() || o.TFE == nil {
		return
	}
	given := map[string][]string{}
	for _, org := range s.Organizations {
		given[org.Name] = org.Credentials
	}
	o.TFE.Runs, o.TFE.RunTime, o.TFE.forward = &remoteRuns{l, given}, s.TFE.RunTimeout.Value(), l.forwardRuns
}

// forwardRuns hands on to the leader what only the leader answers right.
func (l *launcher) forwardRuns(kit *service.Kit, own http.Handler) (http.Handler, error) {
	transport, err := l.peers()
	if err != nil {
		return nil, err
	}
	refuse := func(r *http.Request) error {
		if tfe.Signed(r.URL.Path) {
			return nil // the leader looks at its signature
		}
		return kit.Guard.AllowLogin(r)
	}
	forward := portal.NewForward(portal.ForwardOptions{
		Kit: kit, Leader: l.ledger.Leader, View: l.ledger.View, Own: own, Refuse: refuse, Transport: transport, Plain: l.o.ForwardPlain,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tfe.ForLeader(r, r.URL.Path) {
			forward.ServeHTTP(w, r)
			return
		}
		own.ServeHTTP(w, r)
	}), nil
}

// remoteScopes are the rights of an attempt of a workspace: to read its state for a
// plan, and to write it for an apply.
func remoteScopes(s run.Spec) []access.Scope {
	action := access.Read
	if s.Ref.Kind == lifecycle.RunApply {
		action = access.Write
	}
	return []access.Scope{{Action: action, Kind: addr.KindState, Glob: s.Remote.Organization + "/" + s.Remote.Workspace}}
}

// remoteOver reports whether an attempt of a workspace is known to have ended: only
// what runs now is not. A copy that is behind may not have it yet.
func remoteOver(rec *lifecycle.Record, n, attempt int) bool {
	if !rec.Phase.Live() {
		return true
	}
	u := rec.OpenRun(n)
	switch {
	case u == nil:
		return n <= rec.Numbered
	case u.Attempt != attempt:
		return u.Attempt > attempt
	}
	return !u.Active()
}

// instances reads the blocks about instances; nil: there are none.
func (s *Settings) instances(env Env) (*settings.Options, error) {
	return s.Launch.Check(settings.Beside{
		Registry: s.Registry != "", StateKeys: env.States.Sealer != nil, ArchiveKeys: len(s.Archives.KeyFiles) > 0, SessionKeys: len(s.UI.Keys) > 0,
		More:   s.Depot != "" || len(s.GitHub)+len(s.Hooks)+len(s.Pulls) > 0 || s.Pass,
		Remote: s.runsRemote(), Secret: func(file string) (string, error) { return env.Secret("", file) },
	})
}

// portal reports whether this server only hands on what others answer.
func (s *Settings) portal() bool {
	return s.Launch.Instances != nil && s.Launch.Instances.Role == settings.RolePortal
}

// portalKeys are the secrets that portals share with those who lead.
func (s *Settings) portalKeys() ([]access.Key, error) {
	var keys []access.Key
	if s.Launch.Instances == nil {
		return nil, nil
	}
	for _, file := range s.Launch.Instances.PortalKeys {
		key, err := readArchiveKey(file)
		if err == nil {
			_, err = access.NewKeyring([]access.Key{key})
		}
		if err != nil {
			return nil, syntax.WrongAt(s.Launch.Instances.Range, fmt.Errorf("portal_session_key_files: %s: %w", file, err))
		}
		keys = append(keys, key)
	}
	return keys, nil
}
