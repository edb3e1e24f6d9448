// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
)

// reloadEvery is how often the files of rights and keys are compared with what
// was read of them. A file system tells of changes where it likes to, not of a
// secret that Kubernetes mounts.
const reloadEvery = 2 * time.Second

// reloader keeps the rights and the keys of a running server as their files have
// them. All other settings wait for the next start.
type reloader struct {
	read func() (*Settings, error)
	log  *slog.Logger

	files []string          // that say who may do what, and the keys
	seen  [sha256.Size]byte // of what was in them
	open  bool              // the server started with nothing said about rights
}

func newReloader(s *Settings, env Env) *reloader {
	l := &reloader{read: env.Again, log: env.Log, files: s.ruling(), open: s.silent()}
	l.seen = l.content()
	return l
}

// ruling are the files that say who may do what, and the keys.
func (s *Settings) ruling() []string {
	files := slices.Concat([]string{s.File, s.TokenFile}, s.Archives.KeyFiles)
	return slices.DeleteFunc(files, func(file string) bool { return file == "" })
}

// run looks for changes until ctx ends, and at once when told to.
func (l *reloader) run(ctx context.Context, front *Front, told <-chan os.Signal) {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-told:
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

// content identifies what is in the files.
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

// reload takes what the files say now. What is wrong is logged, and all stays as
// it was.
func (l *reloader) reload(front *Front, why string) {
	s, err := l.read()
	var policy access.Policy
	var keys []access.Key
	if err == nil {
		policy, keys, err = l.rights(s)
	}
	if err == nil {
		err = front.reload(policy, keys)
	}
	if err != nil {
		l.log.Error("rights and keys were not read again; those from before stay", "because", why, "error", err)
		return
	}
	l.files = s.ruling()
	l.seen = l.content()
	l.log.Info("rights and keys were read again", "because", why, "tokens", len(policy.Tokens), "issuers", len(policy.Issuers), "rules", len(policy.Rules), "keys", len(keys))
}

func (l *reloader) rights(s *Settings) (access.Policy, []access.Key, error) {
	if s.silent() && !l.open {
		return access.Policy{}, nil, errors.New("nothing says who may do what any more; on a start that would be everybody everything")
	}
	policy, err := s.access()
	if err != nil {
		return policy, nil, err
	}
	keys, err := s.keys(readArchiveKey)
	return policy, keys, err
}

// reload takes another policy and other keys, or neither.
func (f *Front) reload(p access.Policy, keys []access.Key) error {
	if _, err := access.NewKeyring(keys); err != nil {
		return err
	}
	if err := f.kit.Guard.Replace(p); err != nil {
		return err
	}
	return f.keys.Replace(keys)
}
