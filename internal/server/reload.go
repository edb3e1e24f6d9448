// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web"
)

// reloadEvery is how often files of rights and keys are compared: file systems do not announce
// every change, as of a Secret that Kubernetes mounts.
const reloadEvery = 2 * time.Second

// reloader keeps rights and keys as in their files. Other settings change at the next start.
type reloader struct {
	read func() (*Settings, error)
	log  *slog.Logger

	files []string          // with rights and keys
	seen  [sha256.Size]byte // hash of their content
	open  bool              // the server started without any setting that grants access

	rules   access.RulesFile // of the rules file, as last read
	metrics *Metrics
}

func newReloader(s *Settings, env Env) *reloader {
	l := &reloader{read: env.Again, log: env.Log, files: s.rightsFiles(), open: s.isSilent()}
	l.seen = l.content()
	return l
}

func (s *Settings) rightsFiles() []string {
	files := slices.Concat([]string{s.File, s.TokenFile, s.RulesFile}, s.Archives.KeyFiles, s.UI.Keys)
	return slices.DeleteFunc(files, func(file string) bool { return file == "" })
}

// watchFiles looks for changes until ctx ends, and at once on a signal.
func (l *reloader) watchFiles(ctx context.Context, front *Front, reload <-chan os.Signal) {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-reload:
			l.seen = l.content()
			l.reload(front, "a signal")
		case <-tick.C:
			if now := l.content(); now != l.seen {
				l.seen = now
				l.reload(front, "a file has changed")
			}
		}
	}
}

// content returns a hash over the content of the files.
func (l *reloader) content() [sha256.Size]byte {
	sum := sha256.New()
	for _, file := range l.files {
		b, err := os.ReadFile(file)
		one := sha256.Sum256(b)
		sum.Write(one[:])
		if err != nil {
			sum.Write([]byte("none"))
		}
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

// reload applies the files' content. An error is logged, and changes nothing.
func (l *reloader) reload(front *Front, why string) {
	s, err := l.read()
	var now reloaded
	if err == nil {
		now, err = l.load(s)
	}
	if err == nil {
		err = front.reload(now)
	}
	if err != nil {
		l.log.Error("rights and keys not reloaded; the previous ones stay in effect", "because", why, "error", err)
		return
	}
	l.files = s.rightsFiles()
	l.seen = l.content()
	l.log.Info("rights and keys were reloaded", "because", why, "tokens", len(now.policy.Tokens), "issuers", len(now.policy.Issuers), "rules", len(now.policy.Rules), "keys", len(now.keys))
}

// reloaded holds the settings that are read again.
type reloaded struct {
	policy   access.Policy
	keys     []keyring.Key // of links and logins
	sessions []keyring.Key // of browser sessions
	portals  []keyring.Key // of sessions of portals
}

func (l *reloader) load(s *Settings) (now reloaded, err error) {
	if s.isSilent() && !l.open {
		return now, errors.New("no setting grants access any more; after a restart, every caller would have all rights")
	}
	if now.policy, err = s.accessPolicy(); err != nil {
		return now, err
	}
	now.policy = now.policy.Add(l.rulesOf(s))
	if now.keys, err = s.linkKeys(readArchiveKey); err != nil {
		return now, err
	}
	if now.sessions, err = s.UI.sessionKeys(s.Storage, readArchiveKey); err != nil {
		return now, err
	}
	now.portals, err = s.readPortalKeys()
	return now, err
}

// rulesOf reads the rules file. An error is its writer's fault, and stops no other file: its
// previous rules stay.
func (l *reloader) rulesOf(s *Settings) access.RulesFile {
	file, err := s.rulesFile()
	switch {
	case err != nil:
		l.metrics.noteRules(0, err)
		l.log.Error("the rules file was not reloaded; its previous rules stay in effect", "error", err)
	default:
		if l.rules = file; s.RulesFile != "" {
			l.metrics.noteRules(len(file.Rules), nil)
		}
	}
	return l.rules
}

func warnUnconditional(log *slog.Logger, p access.Policy) {
	if names := p.Unconditional(); len(names) > 0 {
		log.Warn("rules without issuer, groups and claims apply to every token that is accepted", "rules", names)
	}
}

// reload applies all of the rights or none. Whether portals are accepted changes only at a start.
func (f *Front) reload(now reloaded) error {
	rings := map[*keyring.Ring][]keyring.Key{f.keys: now.keys}
	if s := f.o.Sessions; s != nil {
		rings[s.Keyring] = now.sessions
		if s.Portals != nil {
			rings[s.Portals] = now.portals
		}
	}
	for _, keys := range rings {
		if _, err := keyring.New(keys); err != nil {
			return err
		}
	}
	if err := f.kit.Guard.Replace(now.policy); err != nil {
		return err
	}
	warnUnconditional(f.o.Logger, now.policy)
	for ring, keys := range rings {
		if err := ring.Replace(keys); err != nil {
			return err
		}
	}
	return nil
}

// rulesFile reads the rules file, which a program writes.
func (s *Settings) rulesFile() (access.RulesFile, error) {
	if s.RulesFile == "" {
		return access.RulesFile{}, nil
	}
	out, err := access.ReadRules(s.RulesFile)
	if err != nil {
		return out, syntax.WrongAt(s.RulesRange, fmt.Errorf("rules_file: %w", err))
	}
	for _, r := range out.Rules {
		if err := s.Cloud.checkReserved(hcl.Range{Filename: s.RulesFile}, r.Allow); err != nil {
			return access.RulesFile{}, err
		}
	}
	return out, nil
}

// rulesState is the result of the last read of the rules file, for the doctor.
type rulesState struct {
	mu      sync.Mutex // guards the fields below
	rules   int        // number of rules in effect
	problem string     // why the last read failed; "": it succeeded
	since   time.Time  // time of the problem, or of the last successful read
}

// noteRules notes what came of reading the rules file.
func (m *Metrics) noteRules(rules int, err error) {
	m.rules.mu.Lock()
	defer m.rules.mu.Unlock()
	m.rules.since = time.Now()
	if err != nil {
		m.rulesErrors.Inc()
		m.rules.problem = err.Error()
		return
	}
	m.rules.problem = ""
	m.rules.rules = rules
}

// rulesFindings report whether the current rules file is in effect.
func rulesFindings(m *Metrics) []web.Finding {
	m.rules.mu.Lock()
	defer m.rules.mu.Unlock()
	if m.rules.since.IsZero() {
		return nil // no rules file is configured
	}
	at := m.rules.since.UTC().Format("2006-01-02 15:04 UTC")
	if m.rules.problem == "" {
		return []web.Finding{{
			About: "Rules file", State: text.Plural(m.rules.rules, "rule") + ", read " + at, Meaning: "The current file is in effect; changes take effect within seconds.",
		}}
	}
	return []web.Finding{{
		Verdict: web.Act, About: "Rules file", State: "not read since " + at + ": " + m.rules.problem,
		Meaning: fmt.Sprintf("The previous %d rules stay in effect; later changes do not take effect.", m.rules.rules),
		Do:      "Fix the file, or the program that writes it.",
	}}
}
