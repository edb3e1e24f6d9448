// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/text"
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
		p.Warnings[i] = safeText(w)
	}
	return depot.Published{
		Repository: text.Excerpt(p.Repository), Tag: text.Excerpt(p.Tag), Digest: text.Excerpt(p.Digest), ContentDigest: text.Excerpt(p.ContentDigest),
		Existing: status == http.StatusOK, Warnings: p.Warnings,
	}
}

// PublishModule packs the tree and sends it as a version of a module. The method of the
// same name of a depot does the same without a server.
func (c *Client) PublishModule(ctx context.Context, tree fs.FS, m addr.ModuleVersion, o depot.ModuleOptions) (depot.Published, error) {
	plan, err := depot.PlanModule(ctx, tree, m, o)
	if err != nil {
		return depot.Published{}, err
	}
	var out published
	status, contentDigest, err := c.sendModule(ctx, m, o, plan, moduleQuery(o), &out)
	if err != nil {
		return depot.Published{}, fmt.Errorf("publish %s %s: %w", m.Module, m.Version, err)
	}
	if out.ContentDigest != contentDigest {
		return depot.Published{}, fmt.Errorf("publish %s %s: packed %s, the server stored %q: %w", m.Module, m.Version, contentDigest, out.ContentDigest, oci.ErrCorrupt)
	}
	result := out.result(status)
	for _, w := range plan.Warnings { // the server did not see what was left out
		if !slices.Contains(result.Warnings, w) {
			result.Warnings = append(result.Warnings, w)
		}
	}
	return result, nil
}

// ModuleThere sends the plan as a dry run, and reports whether the version exists with the same
// content. The method of the same name of a depot does the same without a server.
func (c *Client) ModuleThere(ctx context.Context, m addr.ModuleVersion, plan *depot.ModulePlan, o depot.ModuleOptions) (existing bool, err error) {
	q := moduleQuery(o)
	q.Set("dry_run", "true")
	var out struct {
		Outcome string `json:"outcome"`
	}
	if _, _, err := c.sendModule(ctx, m, o, plan, q, &out); err != nil {
		return false, fmt.Errorf("publish %s %s: %w", m.Module, m.Version, err)
	}
	if out.Outcome != "new" && out.Outcome != "same" {
		return false, oci.Unsupported("publish %s %s: the server does not compare with its registry in a dry run", m.Module, m.Version)
	}
	return out.Outcome == "same", nil
}

// moduleQuery encodes the options for the server.
func moduleQuery(o depot.ModuleOptions) url.Values {
	q := originQuery(o.Annotations)
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
	return q
}

// sendModule packs the plan and sends it. The answer is decoded into v.
func (c *Client) sendModule(ctx context.Context, m addr.ModuleVersion, o depot.ModuleOptions, plan *depot.ModulePlan, q url.Values, v any) (status int, contentDigest string, err error) {
	plan.Tree.Read = c.o.Progress.Of(m.Module.String()+" "+m.Version.String()+" (packing)", plan.Tree.Bytes)
	packed, err := plan.Tree.Pack(ctx, "")
	if err != nil {
		return 0, "", err
	}
	defer packed.Close()
	body := content{size: packed.Zip.Size, sha256: strings.TrimPrefix(packed.Zip.Digest, "sha256:")}
	body.open = func() (io.ReadCloser, error) {
		return depot.Watch(io.NopCloser(packed.Zip.Open()), c.o.Progress.Of(m.Module.String()+" "+m.Version.String(), body.size)), nil
	}
	at := "v1/modules/" + m.Module.Title(o.Annotations[artifact.AnnTitle]) + "/" + m.Version.String()
	status, err = c.send(ctx, http.MethodPut, at, q, &body, v)
	return status, packed.ContentDigest, err
}

// ModulePath returns the path of a module's versions on a front-end.
func ModulePath(m addr.Module) string { return "v1/modules/" + m.String() }

// ProviderPath returns the path of the versions of an own provider on a front-end.
func ProviderPath(p addr.Provider) string { return "v1/providers/" + p.String() }

// originQuery returns the query that names the source. The server prefers values that a token
// of a CI system proves.
func originQuery(annotations map[string]string) url.Values {
	q := url.Values{}
	for name, key := range map[string]string{
		"source": artifact.AnnSource, "revision": artifact.AnnRevision, "ref": artifact.AnnSourceRef, "created": artifact.AnnCreated,
		"changes": artifact.AnnChanges,
	} {
		if v := annotations[key]; v != "" {
			q.Set(name, v)
		}
	}
	return q
}
