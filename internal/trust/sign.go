// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// SignCosign adds a cosign-compatible signature to a version and returns its manifest. If the key
// has already signed the version, nothing changes and the descriptor is zero.
func SignCosign(ctx context.Context, s Subject, key *ecdsa.PrivateKey) (oci.Descriptor, error) {
	r := s.Repository
	subject := s.Manifest.Descriptor
	have, err := evidence.ReadCosignSignatures(ctx, r, subject.Digest)
	if err != nil {
		return oci.Descriptor{}, err
	}
	if slices.ContainsFunc(have, func(c evidence.CosignSignature) bool {
		return c.Names(s.Name, subject.Digest) == nil && signing.VerifyECDSA(&key.PublicKey, c.Payload, c.Signature) == nil
	}) {
		return oci.Descriptor{}, nil
	}
	payload, err := evidence.CosignPayload(r.String(), subject.Digest)
	if err != nil {
		return oci.Descriptor{}, err
	}
	signature, err := signing.SignECDSA(key, payload)
	if err != nil {
		return oci.Descriptor{}, err
	}
	return evidence.AddCosignSignature(ctx, r, subject, evidence.CosignSignature{Payload: payload, Signature: signature})
}

// SignProvider signs SHA256SUMS of an existing version. The new signature is added to the existing
// ones; with replace it replaces them, for a key that must no longer count. The index does not
// change: a status event holds signature and keys. If the key has already signed the version and
// replace is not set, nothing changes and the event is zero.
func SignProvider(ctx context.Context, s Subject, key *signing.Key, replace bool) (evidence.StatusEvent, error) {
	index, err := artifact.ParseProviderIndex(s.Manifest)
	if err != nil {
		return evidence.StatusEvent{}, err
	}
	md, err := evidence.Resigned(ctx, s.Repository, index, s.Status())
	if errors.Is(err, oci.ErrNotFound) {
		md, err = sumsOf(ctx, s.Repository, s.Item.Provider, s.Version, index)
	}
	if err != nil {
		return evidence.StatusEvent{}, err
	}
	public, err := key.Public()
	if err != nil {
		return evidence.StatusEvent{}, err
	}
	if _, err := signing.Verify(md.ShasumsBytes, md.SignatureBytes, []signing.PublicKey{public}, signing.VerifyOptions{}); err == nil && !replace {
		return evidence.StatusEvent{}, nil
	}
	if err := addSignature(&md, key, public, time.Now(), replace); err != nil {
		return evidence.StatusEvent{}, err
	}
	layers, blobs, err := artifact.NewSignatureLayers(md, index.Metadata == nil)
	if err != nil {
		return evidence.StatusEvent{}, err
	}
	return evidence.PutStatusEvent(ctx, s.Repository, evidence.StatusEvent{
		Action: evidence.ActionResign, Version: s.Version.String(), Subject: s.Manifest.Digest, Layers: layers, Time: evidence.NextStatusTime(s.Events, s.Now),
	}, blobs...)
}

// addSignature adds a packet made by key, and the public key, to md.
func addSignature(md *artifact.ProviderMetadata, key *signing.Key, public signing.PublicKey, now time.Time, replace bool) error {
	signature, err := key.Sign(md.ShasumsBytes, now)
	if err != nil {
		return err
	}
	keys := []signing.PublicKey{public}
	if !replace {
		signature = append(signature, md.SignatureBytes...)
		old, err := PublicKeys(md.Keys)
		if err != nil {
			return err
		}
		keys = append(keys, old...)
	}
	md.SignatureBytes = signature
	md.Keys = ServedKeys(keys, now)
	return nil
}

// sumsOf creates SHA256SUMS for an index that another tool made.
func sumsOf(ctx context.Context, r *oci.Repo, p addr.Provider, v addr.Version, index artifact.ProviderIndex) (artifact.ProviderMetadata, error) {
	stem := signing.PackageStem(p, v)
	sums := signing.Sums{}
	for _, t := range index.Platforms {
		zip, err := artifact.ResolveProviderZip(ctx, r, t)
		if err != nil {
			return artifact.ProviderMetadata{}, err
		}
		sums[stem+t.Platform.String()+".zip"] = zip.Digest.Encoded()
	}
	return artifact.ProviderMetadata{ShasumsName: stem + "SHA256SUMS", ShasumsBytes: sums.Bytes()}, nil
}
