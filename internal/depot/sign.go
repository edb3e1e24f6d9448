// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
)

// SignCosign adds a cosign-compatible signature to a version of a module or
// provider, and returns its manifest. One that the key has signed is left as it
// is; the descriptor is then zero.
func (d *Depot) SignCosign(ctx context.Context, repository string, v addr.Version, key *ecdsa.PrivateKey) (oci.Descriptor, error) {
	r, err := d.repo(repository)
	if err != nil {
		return oci.Descriptor{}, err
	}
	subject, err := r.Resolve(ctx, v.Tag())
	if err != nil {
		return oci.Descriptor{}, err
	}
	have, err := r.CosignSignatures(ctx, subject.Digest)
	if err != nil {
		return oci.Descriptor{}, err
	}
	if slices.ContainsFunc(have, func(s oci.CosignSignature) bool {
		return s.Names(d.below(repository), subject.Digest) == nil && signing.VerifyECDSA(&key.PublicKey, s.Payload, s.Signature) == nil
	}) {
		return oci.Descriptor{}, nil
	}
	payload, err := oci.CosignPayload(r.String(), subject.Digest)
	if err != nil {
		return oci.Descriptor{}, err
	}
	signature, err := signing.SignECDSA(key, payload)
	if err != nil {
		return oci.Descriptor{}, err
	}
	return r.AddCosignSignature(ctx, subject, oci.CosignSignature{Payload: payload, Signature: signature})
}

// SignProvider signs SHA256SUMS of a version that exists. The new signature joins
// those that are there; with replace it takes their place, for a key that must
// no longer count. The index does not change: a status event carries signature
// and keys. A version that the key has signed is left as it is, except with
// replace; the event is then zero.
func (d *Depot) SignProvider(ctx context.Context, p addr.Provider, v addr.Version, key *signing.Key, replace bool) (oci.StatusEvent, error) {
	l, err := d.Versions(ctx, d.providerRepo(p))
	if err != nil {
		return oci.StatusEvent{}, err
	}
	m, err := l.Repository.Fetch(ctx, v.Tag())
	if err != nil {
		return oci.StatusEvent{}, err
	}
	index, err := oci.ParseProviderIndex(m)
	if err != nil {
		return oci.StatusEvent{}, err
	}
	md, err := l.Repository.Resigned(ctx, index, l.StatusOf(v, m.Digest))
	if errors.Is(err, oci.ErrNotFound) {
		md, err = sumsOf(ctx, l.Repository, p, v, index)
	}
	if err != nil {
		return oci.StatusEvent{}, err
	}
	public, err := key.Public()
	if err != nil {
		return oci.StatusEvent{}, err
	}
	if _, err := signing.Verify(md.ShasumsBytes, md.SignatureBytes, []signing.PublicKey{public}, signing.VerifyOptions{}); err == nil && !replace {
		return oci.StatusEvent{}, nil
	}
	if err := addSignature(&md, key, public, d.eventTime(l), replace); err != nil {
		return oci.StatusEvent{}, err
	}
	layers, blobs, err := oci.NewSignatureLayers(md, index.Metadata == nil)
	if err != nil {
		return oci.StatusEvent{}, err
	}
	return l.Repository.PutStatusEvent(ctx, oci.StatusEvent{
		Action: oci.ActionResign, Version: v.String(), Subject: m.Digest, Layers: layers, Time: d.eventTime(l),
	}, blobs...)
}

// addSignature adds a packet by key and the public key to md.
func addSignature(md *oci.ProviderMetadata, key *signing.Key, public signing.PublicKey, now time.Time, replace bool) error {
	signature, err := key.Sign(md.ShasumsBytes, now)
	if err != nil {
		return err
	}
	keys := []signing.PublicKey{public}
	if !replace {
		signature = append(signature, md.SignatureBytes...)
		old, err := parseServed(md.Keys)
		if err != nil {
			return err
		}
		keys = append(keys, old...)
	}
	md.SignatureBytes, md.Keys = signature, servedKeys(keys, now)
	return nil
}

func parseServed(served []oci.SigningKey) ([]signing.PublicKey, error) {
	var keys []signing.PublicKey
	for _, k := range served {
		parsed, err := signing.ParsePublicKeys([]byte(k.ASCIIArmor))
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", k.KeyID, err)
		}
		keys = append(keys, parsed...)
	}
	return keys, nil
}

// sumsOf makes SHA256SUMS for an index that another tool made.
func sumsOf(ctx context.Context, r *oci.Repo, p addr.Provider, v addr.Version, index oci.ProviderIndex) (oci.ProviderMetadata, error) {
	stem := stemOf(p, v)
	sums := signing.Sums{}
	for _, t := range index.Platforms {
		zip, err := r.ProviderZip(ctx, t)
		if err != nil {
			return oci.ProviderMetadata{}, err
		}
		sums[stem+t.Platform.String()+".zip"] = zip.Digest.Encoded()
	}
	return oci.ProviderMetadata{ShasumsName: stem + "SHA256SUMS", ShasumsBytes: sums.Bytes()}, nil
}
