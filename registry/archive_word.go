// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// admitWord authorizes a link with the word public or auth in place of a signature, by the rights
// of the request. It opens only blobs that the server would sign a link for now, not withdrawn
// versions and what the policy refuses.
func (a *archives) admitWord(r *http.Request, b blobName) (_ delivery, cacheControl string, err error) {
	right := rights.RightTo(a.layout, rights.Read, b.Repository)
	if right.Kind == addr.KindState || right == rights.Server() {
		return delivery{}, "", notFound("archive %s: not found", b.File)
	}
	g, err := a.kit.Guard.Allow(r, right)
	if err != nil {
		return delivery{}, "", err
	}
	if r.PathValue("token") == publicToken && !g.Public {
		return delivery{}, "", &service.Error{Status: http.StatusForbidden, Text: "this archive is not public"}
	}
	v, err := a.views.viewFor(g.Credential)
	if err != nil {
		return delivery{}, "", err
	}
	ctx, cancel := context.WithTimeout(r.Context(), service.Timeout)
	defer cancel()
	ok, err := a.isOffered(ctx, v, b)
	if err != nil {
		return delivery{}, "", v.reportedError(orNotFound(err, "archive %s", b.File))
	}
	if !ok {
		return delivery{}, "", notFound("archive %s: not found", b.File)
	}
	scope := "private"
	if g.Public {
		scope = "public"
	}
	return delivery{Request: r, view: v, blob: b, public: g.Public}, scope + ", max-age=31536000, immutable", nil
}

// isOffered reports whether an answer about the version in the file name links to this blob.
func (a *archives) isOffered(ctx context.Context, in *view, b blobName) (bool, error) {
	item, text, ok := b.itemOfLink(a.layout)
	if !ok {
		return false, nil
	}
	if item.Kind == addr.KindModule {
		v, ok := addr.VersionFromTag(text)
		if !ok || b.File != moduleFile(item.Module, v) {
			return false, nil
		}
		m, err := in.catalog.ModuleVersion(ctx, item.Module, v)
		return err == nil && m.Zip.Digest.Encoded() == b.Hex, err
	}
	v, err := addr.ParseVersion(text)
	if err != nil {
		return false, nil
	}
	p, err := in.providerVersion(ctx, item.Provider, v)
	return err == nil && offersBlob(item.Provider, v, p, b), err
}

func moduleFile(m addr.Module, v addr.Version) string {
	return strings.ReplaceAll(m.String(), "/", "-") + "-" + v.Tag() + ".zip"
}

func offersBlob(a addr.Provider, v addr.Version, p *catalog.ProviderVersion, b blobName) bool {
	sums, signature := proofBlobs(a, v, p)
	isSums := b.Hex == sums.Hex && b.File == sums.File
	isSignature := b.Hex == signature.Hex && b.File == signature.File
	isPackage := func(t artifact.ProviderPlatform) bool { return t.Filename == b.File && t.Zh == b.Hex }
	return isSums || isSignature || slices.ContainsFunc(p.Platforms, isPackage)
}

// proofBlobs returns SHA256SUMS and its signature, without a hash if pushed without them. Without a
// signature upstream its link leads to SHA256SUMS: clients fetch but do not read it.
func proofBlobs(a addr.Provider, v addr.Version, p *catalog.ProviderVersion) (sums, signature blobName) {
	sums = blobName{File: signing.PackageStem(a, v) + "SHA256SUMS"}
	if d := p.Meta.Shasums.Digest; d != "" {
		sums.Hex = d.Encoded()
	}
	signature = blobName{Hex: sums.Hex, File: sums.File + ".sig"}
	if d := p.Meta.Signature.Digest; d != "" {
		signature.Hex = d.Encoded()
	}
	return sums, signature
}
