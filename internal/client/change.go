// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"net/http"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// Announce deprecates or yanks a version, or takes that back. It returns the tag of the event. Path
// is that of a module or provider. The server determines the author of the event.
func (c *Client) Announce(ctx context.Context, path string, an depot.Announcement) (tag string, err error) {
	body, err := jsonContent(map[string]string{"action": an.Action, "message": an.Message, "replacement": an.Replacement})
	if err != nil {
		return "", err
	}
	var out struct {
		Tag string `json:"tag"`
	}
	_, err = c.send(ctx, http.MethodPost, path+"/"+an.Version+"/status", nil, &body, &out)
	return text.Excerpt(out.Tag), err
}

// SignCosign adds a cosign-compatible signature over the digest that the server reports
// for a version, and returns the digest of the signature manifest.
func (c *Client) SignCosign(ctx context.Context, path string, v addr.Version, key *ecdsa.PrivateKey) (digest.Digest, error) {
	path += "/" + v.String() + "/signatures"
	var subject struct {
		Repository string        `json:"repository"`
		Digest     digest.Digest `json:"digest"`
	}
	if _, err := c.send(ctx, http.MethodGet, path, nil, nil, &subject); err != nil {
		return "", err
	}
	if err := subject.Digest.Validate(); err != nil {
		return "", fmt.Errorf("digest of %s: %w: %w", path, oci.ErrCorrupt, err)
	}
	payload, err := evidence.CosignPayload(subject.Repository, subject.Digest)
	if err != nil {
		return "", err
	}
	signature, err := signing.SignECDSA(key, payload)
	if err != nil {
		return "", err
	}
	body, err := jsonContent(map[string]any{"digest": subject.Digest, "payload": payload, "signature": signature})
	if err != nil {
		return "", err
	}
	var out struct {
		Signature digest.Digest `json:"signature"`
	}
	_, err = c.send(ctx, http.MethodPost, path, nil, &body, &out)
	return out.Signature, err
}
