// SPDX-License-Identifier: Apache-2.0

package kindctl

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
)

// Version is a version of a module, with its inputs and outputs.
type Version struct {
	v1alpha1.ResolvedModule
	Size   int64 // of the archive that runs, in bytes
	Module kindspec.Module
}

// Modules is the access to a registry. A missing module or version is an [oci.ErrNotFound],
// one not signed by a key of spec.module.verify a [trust.ErrUntrusted].
type Modules interface {
	// Versions returns the available versions of a module, the highest first.
	Versions(ctx context.Context, m v1alpha1.KindModule) ([]addr.Version, error)
	Version(ctx context.Context, m v1alpha1.KindModule, v addr.Version) (Version, error)
	// ForgetVersions lets the next Versions ask the registry.
	ForgetVersions(m v1alpha1.KindModule)
}

// Registry reads modules by a catalog, and modules that are only a repository by requests.
type Registry struct {
	Catalog *catalog.Catalog
	Client  *oci.Client
}

// Versions implements [Modules].
func (r Registry) Versions(ctx context.Context, m v1alpha1.KindModule) ([]addr.Version, error) {
	if m.Repository != "" {
		return r.tags(ctx, m.Repository)
	}
	a, err := addr.ParseModule(m.Address)
	if err != nil {
		return nil, err
	}
	list, err := r.Catalog.Versions(ctx, a.Item())
	if err != nil {
		return nil, err
	}
	return slices.Clone(list.Listed), nil
}

// ForgetVersions implements [Modules].
func (r Registry) ForgetVersions(m v1alpha1.KindModule) {
	if a, err := addr.ParseModule(m.Address); err == nil {
		r.Catalog.Changed(a.Item().Repository(r.Catalog.Layout()), "")
	}
}

func (r Registry) tags(ctx context.Context, repository string) ([]addr.Version, error) {
	repo, err := r.Client.Repo(repository)
	if err != nil {
		return nil, err
	}
	var all []addr.Version
	for tag, err := range repo.Tags(ctx) {
		if err != nil {
			return nil, err
		}
		if v, ok := addr.VersionFromTag(tag); ok {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b addr.Version) int { return b.Compare(a) })
	return all, nil
}

// Version implements [Modules].
func (r Registry) Version(ctx context.Context, m v1alpha1.KindModule, v addr.Version) (Version, error) {
	found, d, err := r.readModule(ctx, m, v)
	if err != nil {
		return Version{}, err
	}
	if found.Tar == nil {
		return Version{}, fmt.Errorf("version %s has no archive that Flux can use: publish it again with okara", v)
	}
	if err := r.verify(ctx, m, found, v); err != nil {
		return Version{}, err
	}
	out := Version{ResolvedModule: v1alpha1.ResolvedModule{Version: v.String(), Digest: found.Manifest.Digest.String()}, Size: found.Tar.Size}
	if found.Description == nil {
		return out, nil
	}
	out.Module, err = kindspec.Described(d, m.Path)
	return out, err
}

func (r Registry) readModule(ctx context.Context, m v1alpha1.KindModule, v addr.Version) (*catalog.ModuleVersion, artifact.ModuleDescription, error) {
	found, err := r.readVersion(ctx, m, v)
	if err != nil {
		return nil, artifact.ModuleDescription{}, err
	}
	d, err := r.Catalog.Description(ctx, found)
	return found, d, err
}

func (r Registry) readVersion(ctx context.Context, m v1alpha1.KindModule, v addr.Version) (*catalog.ModuleVersion, error) {
	if m.Repository != "" {
		return r.readTag(ctx, m.Repository, v)
	}
	a, err := addr.ParseModule(m.Address)
	if err != nil {
		return nil, err
	}
	return r.Catalog.ModuleVersion(ctx, a, v)
}

func (r Registry) readTag(ctx context.Context, repository string, v addr.Version) (*catalog.ModuleVersion, error) {
	repo, err := r.Client.Repo(repository)
	if err != nil {
		return nil, err
	}
	raw, err := repo.Fetch(ctx, v.Tag())
	if err != nil {
		return nil, err
	}
	parsed, err := artifact.ParseModule(raw)
	if err != nil {
		return nil, fmt.Errorf("%s:%s: %w", repository, v.Tag(), err)
	}
	return &catalog.ModuleVersion{ModuleManifest: parsed, Repository: repository}, nil
}

// verify checks a version against the keys of a definition.
func (r Registry) verify(ctx context.Context, m v1alpha1.KindModule, found *catalog.ModuleVersion, v addr.Version) error {
	if m.Verify == nil {
		return nil
	}
	var keys []*ecdsa.PublicKey
	for i, text := range m.Verify.Keys {
		key, err := signing.ParseCosignPublicKey([]byte(text))
		if err != nil {
			return &kindspec.FieldError{Path: fmt.Sprintf("spec.module.verify.keys[%d]", i), Message: err.Error()}
		}
		keys = append(keys, key)
	}
	repo, err := r.Client.Repo(found.Repository)
	if err != nil {
		return err
	}
	raw, err := repo.Fetch(ctx, found.Manifest.Digest.String())
	if err != nil {
		return err
	}
	_, err = trust.Verify(ctx, trust.Subject{
		Repository: repo, Item: r.item(found.Repository), Name: r.Catalog.Layout().Below(found.Repository), Version: v, Manifest: raw,
	}, trust.Policy{Cosign: keys, Require: []string{trust.RequireCosign}, Lean: true, AllowYanked: true})
	return err
}

// item returns what a repository holds according to its name, not its content: if the
// layout does not know the name, the module of its last three segments.
func (r Registry) item(repository string) addr.Item {
	if it, ok := r.Catalog.Layout().Parse(repository); ok {
		return it
	}
	segments := strings.Split(repository, "/")
	m, _ := addr.ParseModule(strings.Join(segments[max(0, len(segments)-3):], "/"))
	return m.Item()
}

func isMissing(err error) bool { return errors.Is(err, oci.ErrNotFound) }
