// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/oci"
)

// GitHub configures how tags in the repositories of an organisation, or user, become versions of
// modules. A repository terraform-SYSTEM-NAME holds the module NAMESPACE/NAME/SYSTEM; any other is
// ignored unless listed in Modules.
type GitHub struct {
	Owner     string         // as in OWNER/REPOSITORY
	Secrets   [][]byte       // of its webhooks; each is valid
	Namespace string         // "": the owner in lower case
	Modules   []GitHubModule // at most one for a repository
	Origins   func() (supply.Origins, error)
}

// GitHubModule is a repository whose name does not give the module, or that holds several.
type GitHubModule struct {
	Repository string // without the owner
	// Address is NAMESPACE/NAME/SYSTEM. With {name}, and maybe {system}, each folder has a module:
	// the tag modules/aws/vpc/v1.4.0 is version 1.4.0 of module vpc for system aws.
	Address string
	Dir     string // of a single module; "": the root of the repository
}

// tagTimeout bounds one attempt to publish a tag. GitHub's rate limit may last until a later one.
const tagTimeout = 15 * time.Minute

// minHookSecret is the minimum length of a webhook secret, in bytes.
const minHookSecret = 16

func validateGitHub(all []GitHub) error {
	for i, g := range all {
		if slices.ContainsFunc(all[:i], func(o GitHub) bool { return strings.EqualFold(o.Owner, g.Owner) }) {
			return fmt.Errorf("github %s appears twice", g.Owner)
		}
		if err := g.Validate(); err != nil {
			return fmt.Errorf("github %s: %w", g.Owner, err)
		}
	}
	return nil
}

// Validate checks everything that New would refuse.
func (g GitHub) Validate() error {
	if g.Owner == "" || strings.Contains(g.Owner, "/") {
		return errors.New("must be the name of an organization or user")
	}
	if len(g.Secrets) == 0 || g.Origins == nil {
		return errors.New("requires a webhook secret, and a way to read its repositories")
	}
	for _, secret := range g.Secrets {
		if len(secret) < minHookSecret {
			return fmt.Errorf("a webhook secret must have at least %d characters", minHookSecret)
		}
	}
	if err := (addr.Module{Namespace: g.namespace(), Name: "name", System: "system"}).Validate(); err != nil {
		return fmt.Errorf("set a namespace for its modules: %w", err)
	}
	for i, m := range g.Modules {
		if slices.ContainsFunc(g.Modules[:i], func(o GitHubModule) bool { return strings.EqualFold(o.Repository, m.Repository) }) {
			return fmt.Errorf("repository %s appears twice", m.Repository)
		}
		if err := m.validate(); err != nil {
			return fmt.Errorf("repository %s: %w", m.Repository, err)
		}
	}
	return nil
}

func (g GitHub) namespace() string { return strings.ToLower(cmp.Or(g.Namespace, g.Owner)) }

// target returns the version of a tag of a repository, and its module's place; or an ignoredError.
func (g GitHub) target(repository, tag string) (t supply.Tagged, err error) {
	t = supply.Tagged{Owner: g.Owner, Name: repository, Tag: tag}
	if t.Dir, t.Module.Version, err = addr.VersionFromGit(tag); err != nil {
		return t, newIgnored("%v", err)
	}
	if t.Dir != "" && !fs.ValidPath(t.Dir) {
		return t, newIgnored("%q is not a valid folder", t.Dir)
	}
	if i := slices.IndexFunc(g.Modules, func(m GitHubModule) bool { return strings.EqualFold(m.Repository, repository) }); i >= 0 {
		t.Title, t.Dir, err = g.Modules[i].target(t.Dir)
	} else {
		t.Title, err = g.addressOf(repository, t.Dir)
	}
	if err != nil {
		return t, err
	}
	if t.Module.Module, err = addr.ParseModule(t.Title); err != nil {
		return t, newIgnored("%v", err)
	}
	return t, nil
}

// addressOf returns the address of the module in a repository that no block names.
func (g GitHub) addressOf(repository, dir string) (string, error) {
	part := strings.SplitN(repository, "-", 3)
	switch {
	case len(part) != 3 || !strings.EqualFold(part[0], "terraform"):
		return "", newIgnored("repository %s is not named terraform-SYSTEM-NAME, and the configuration has no module for it", repository)
	case dir != "":
		return "", newIgnored("the tag is for folder %s, and the configuration has no module for it", dir)
	}
	return cmp.Or(g.Namespace, g.Owner) + "/" + part[2] + "/" + strings.ToLower(part[1]), nil
}

const (
	nameHole   = "{name}"
	systemHole = "{system}"
)

func (m GitHubModule) validate() error {
	if m.Repository == "" || strings.Contains(m.Repository, "/") {
		return errors.New("must be the name of a repository")
	}
	if many := strings.Contains(m.Address, nameHole); many && m.Dir != "" {
		return errors.New("the tag names the folder; remove dir")
	} else if !many && strings.Contains(m.Address, systemHole) {
		return fmt.Errorf("address %q has %s without %s", m.Address, systemHole, nameHole)
	}
	if m.Dir != "" && !fs.ValidPath(m.Dir) {
		return fmt.Errorf("%q is not a folder of the repository", m.Dir)
	}
	_, err := addr.ParseModule(strings.NewReplacer(nameHole, "name", systemHole, "system").Replace(m.Address))
	return err
}

// target returns the address of the module of a tag with folder dir, and its folder in there.
func (m GitHubModule) target(dir string) (address, folder string, err error) {
	switch {
	case !strings.Contains(m.Address, nameHole):
		if dir != "" && dir != m.Dir {
			return "", "", newIgnored("the tag is for folder %s, the module is in %q", dir, m.Dir)
		}
		return m.Address, m.Dir, nil
	case dir == "":
		return "", "", newIgnored("the tag does not name a folder, and the repository has one module per folder")
	}
	return strings.NewReplacer(nameHole, path.Base(dir), systemHole, path.Base(path.Dir(dir))).Replace(m.Address), dir, nil
}

func (h *hooks) runHookJob(ctx context.Context, j jobs.Job) (string, error) {
	e := hookEventOf(j)
	i := slices.IndexFunc(h.owners, func(g GitHub) bool { return strings.EqualFold(g.Owner, e.owner) })
	if i < 0 {
		return "", jobs.Permanent(fmt.Errorf("%s is no longer configured", e.owner))
	}
	t, err := h.owners[i].target(e.repository, e.tag)
	if err != nil {
		return "", jobs.Permanent(err)
	}
	t.Commit, t.URL = e.commit, e.url
	from, err := h.owners[i].Origins()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, tagTimeout)
	defer cancel()
	out, err := supply.PublishTagged(ctx, h.depot, from, t)
	if final := isHopeless(err); err == nil || final {
		h.recordTag(ctx, j, t.Module, out, err)
		if final {
			return "", jobs.Permanent(err)
		}
	}
	if err != nil {
		return "", err
	}
	h.catalog.AddedVersion(h.layout.Module(t.Module.Module), out.Tag)
	for _, text := range out.Warnings {
		h.log.Warn("published with a warning", "tag", e.String(), "warning", text)
	}
	return out.String(), nil
}

// isHopeless reports whether the source tree itself is at fault, so that a retry cannot help.
func isHopeless(err error) bool {
	return slices.ContainsFunc([]error{
		archive.ErrUnsafe, archive.ErrTooLarge, syntax.ErrTooComplex, depot.ErrNoModule, description.ErrOutside, description.ErrInvalid, oci.ErrTooLarge, oci.ErrExists,
	}, func(e error) bool { return errors.Is(err, e) })
}

// recordTag records the result of publishing a tag, as publishing does for a request.
func (h *hooks) recordTag(ctx context.Context, j jobs.Job, m addr.ModuleVersion, out depot.Published, err error) {
	status := http.StatusCreated
	result := "done"
	if err != nil {
		status, _ = classifyError(publishError(err))
		result = http.StatusText(status)
	}
	h.metrics.publish.WithLabelValues("module", result).Inc()
	if h.audit == nil {
		return
	}
	h.audit.LogAttrs(ctx, slog.LevelInfo, "change",
		slog.String("request_id", j.Data["request_id"]),
		slog.String("action", "publish"), slog.String("kind", "module"), slog.String("address", m.Module.String()),
		slog.String("version", m.Version.String()), slog.String("digest", out.Digest),
		slog.String("mode", "github"), slog.String("subject", hookEventOf(j).String()), slog.Int("status", status), slog.String("outcome", access.Outcome(status)))
}
