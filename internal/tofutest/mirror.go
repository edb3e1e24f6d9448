// SPDX-License-Identifier: Apache-2.0

package tofutest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// MirrorVersions lists the versions of a provider, "host/namespace/type", in a network mirror.
func (c *Client) MirrorVersions(ctx context.Context, base *url.URL, provider string) ([]string, error) {
	var doc struct{ Versions map[string]struct{} }
	if _, err := c.metadata(ctx, base.String()+provider+"/index.json", true, &doc); err != nil {
		return nil, err
	}
	versions := make([]string, 0, len(doc.Versions))
	for v := range doc.Versions {
		versions = append(versions, v)
	}
	slices.Sort(versions)
	return versions, nil
}

// MirrorArchive is an archive in a network mirror.
type MirrorArchive struct {
	URL    string
	Hashes []string
	Zip    []byte `json:"-"`
}

// Mirror installs a provider from a network mirror for one platform.
func (c *Client) Mirror(ctx context.Context, base *url.URL, provider, version, platform string) (MirrorArchive, error) {
	var doc struct{ Archives map[string]MirrorArchive }
	at, err := c.metadata(ctx, base.String()+provider+"/"+version+".json", true, &doc)
	if err != nil {
		return MirrorArchive{}, err
	}
	a, ok := doc.Archives[platform]
	if !ok {
		return a, fmt.Errorf("provider %s %s has no archive for %s: %w", provider, version, platform, ErrNotFound)
	}
	u, err := at.Parse(a.URL)
	if err != nil {
		return a, err
	}
	if a.Zip, err = c.fetchArchive(ctx, u, c.Tool.UserAgent, c.Tool.HeadsProvider); err != nil {
		return a, err
	}
	got := sha256.Sum256(a.Zip)
	zh := "zh:" + hex.EncodeToString(got[:])
	for _, h := range a.Hashes {
		if !strings.Contains(h, ":") {
			return a, fmt.Errorf("hash %q has no scheme", h)
		}
	}
	if !slices.Contains(a.Hashes, zh) {
		return a, fmt.Errorf("the archive is %s, announced were %v", zh, a.Hashes)
	}
	return a, nil
}
