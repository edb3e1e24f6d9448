// SPDX-License-Identifier: Apache-2.0

package publishclient

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// published is the answer to a publication.
type published struct {
	Repository    string   `json:"repository"`
	Tag           string   `json:"tag"`
	Digest        string   `json:"digest"`
	ContentDigest string   `json:"content_digest"`
	Warnings      []string `json:"warnings"`
}

func (p published) result(status int) depot.Published {
	for i, w := range p.Warnings {
		p.Warnings[i] = plain(w)
	}
	return depot.Published{
		Repository: plain(p.Repository), Tag: plain(p.Tag), Digest: plain(p.Digest), ContentDigest: plain(p.ContentDigest),
		Existing: status == http.StatusOK, Warnings: p.Warnings,
	}
}

// PublishModule packs the tree and sends it as a version of a module. It does
// what the method of the same name of a depot does.
func (c *Client) PublishModule(ctx context.Context, tree fs.FS, m addr.ModuleVersion, o depot.ModuleOptions) (depot.Published, error) {
	plan, err := depot.PlanModule(ctx, tree, m, o)
	if err != nil {
		return depot.Published{}, err
	}
	packed, err := plan.Tree.Pack(ctx, "")
	if err != nil {
		return depot.Published{}, err
	}
	defer packed.Close()
	q := origin(o.Annotations)
	q.Set("packed", "true") // the ignore files have been applied
	if o.Dir != "" {
		q.Set("dir", o.Dir)
	}
	if o.Policy != "" {
		q.Set("policy", string(o.Policy))
	}
	if o.NoLatest {
		q.Set("no_latest", "true")
	}
	if o.AllowInvalid {
		q.Set("allow_invalid", "true")
	}
	body := content{size: packed.Zip.Size, sha256: strings.TrimPrefix(packed.Zip.Digest, "sha256:")}
	body.open = func() (io.ReadCloser, error) {
		return depot.Watch(io.NopCloser(packed.Zip.Open()), c.o.Progress.Of(m.Module.String()+" "+m.Version.String(), body.size)), nil
	}
	var out published
	status, err := c.send(ctx, http.MethodPut, ModulePath(m.Module)+"/"+m.Version.String(), q, &body, &out)
	if err != nil {
		return depot.Published{}, fmt.Errorf("publish %s %s: %w", m.Module, m.Version, err)
	}
	if out.ContentDigest != packed.ContentDigest {
		return depot.Published{}, fmt.Errorf("publish %s %s: packed %s, the server stored %q: %w", m.Module, m.Version, packed.ContentDigest, out.ContentDigest, oci.ErrCorrupt)
	}
	return out.result(status), nil
}

// ModulePath is where the versions of a module are on a front-end.
func ModulePath(m addr.Module) string { return "v1/modules/" + m.String() }

// ProviderPath is where the versions of an own provider are on a front-end.
func ProviderPath(p addr.Provider) string { return "v1/providers/" + p.String() }

// origin is the query that says where the source is from. The server prefers
// what a token of a CI system proves.
func origin(annotations map[string]string) url.Values {
	q := url.Values{}
	for name, key := range map[string]string{
		"source": artifact.AnnSource, "revision": artifact.AnnRevision, "ref": artifact.AnnSourceRef, "created": artifact.AnnCreated,
	} {
		if v := annotations[key]; v != "" {
			q.Set(name, v)
		}
	}
	return q
}
