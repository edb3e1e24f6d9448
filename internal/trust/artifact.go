// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// verifyModule checks the manifest, and with Deep that both archives contain the
// content that the manifest names.
func (x *verifier) verifyModule(ctx context.Context) error {
	m, err := artifact.ParseModule(x.Manifest)
	if err != nil {
		return x.failCheck("manifest", err)
	}
	if m.Version.String() != "" && m.Version != x.Version {
		return x.failCheck("manifest", fmt.Errorf("declares version %s", m.Version))
	}
	x.addCheck("manifest", "ok", "module")
	if x.isRequired(RequireOpenPGP) {
		return x.failCheck("openpgp", errors.New("modules have no OpenPGP signature"))
	}
	if !x.o.Deep {
		return nil
	}
	for _, layer := range []*oci.Descriptor{m.Tar, m.Zip} {
		if layer == nil {
			continue
		}
		got, err := contentDigest(ctx, x.Repository, *layer)
		if err == nil && m.ContentDigest != "" && got != m.ContentDigest {
			err = fmt.Errorf("got %s, the manifest says %s", got, m.ContentDigest)
		}
		if err != nil {
			return x.failCheck("content of "+layer.MediaType, err)
		}
		x.addCheck("content of "+layer.MediaType, "ok", "%s", got)
	}
	if m.Description != nil {
		if _, err := x.Repository.ReadBlob(ctx, *m.Description, description.MaxDescription); err != nil {
			return x.failCheck("description", err)
		}
	}
	return nil
}

// contentDigest unpacks an archive and packs it again to compute its content digest.
func contentDigest(ctx context.Context, r *oci.Repo, layer oci.Descriptor) (_ string, err error) {
	dir, remove, err := files.TempDir("")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, remove()) }()
	file, done, err := fetchTemp(ctx, r, layer)
	if err != nil {
		return "", err
	}
	defer done()
	if err := archive.Unpack(ctx, file, layer.Size, dir, archive.Limits{}); err != nil {
		return "", err
	}
	tree, err := archive.List(ctx, os.DirFS(dir), archive.Options{All: true})
	if err != nil {
		return "", err
	}
	return tree.ContentDigest(ctx)
}

// fetchTemp copies a verified blob to a temporary file. The caller must call done.
func fetchTemp(ctx context.Context, r *oci.Repo, blob oci.Descriptor) (file *os.File, done func(), err error) {
	file, done, err = files.TempFile("")
	if err != nil {
		return nil, nil, err
	}
	in, err := r.Open(ctx, blob)
	if err == nil {
		_, err = io.Copy(file, in)
		_ = in.Close()
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return file, done, nil
}

// verifyProvider checks the index, SHA256SUMS and its signature, and every platform.
func (x *verifier) verifyProvider(ctx context.Context) error {
	index, err := artifact.ParseProviderIndex(x.Manifest)
	if err != nil {
		return x.failCheck("index", err)
	}
	if index.Version.String() != "" && index.Version != x.Version {
		return x.failCheck("index", fmt.Errorf("declares version %s", index.Version))
	}
	x.addCheck("index", "ok", "provider for %s", text.Plural(len(index.Platforms), "platform"))
	md, err := evidence.Resigned(ctx, x.Repository, index, x.Status())
	if err == nil && x.o.Deep && index.Metadata != nil { // the index repeats it
		_, err = x.Repository.Resolve(ctx, index.Metadata.Digest.String())
	}
	if errors.Is(err, oci.ErrNotFound) && index.Metadata == nil && x.Status().Resigned == nil {
		if x.isRequired(RequireOpenPGP) {
			return x.failCheck("openpgp", ErrUnsigned)
		}
		x.addCheck("openpgp", "absent", "no SHA256SUMS: created by another tool")
		return x.platforms(ctx, index, nil)
	}
	if err != nil {
		return x.failCheck("metadata", err)
	}
	if err := x.checkOpenPGP(md); err != nil {
		return err
	}
	sums, err := signing.ParseSums(md.ShasumsBytes)
	if err != nil {
		return x.failCheck("sums", err)
	}
	if err := x.platforms(ctx, index, sums); err != nil {
		return err
	}
	return x.protocols(index, md)
}

func (x *verifier) checkOpenPGP(md artifact.ProviderMetadata) error {
	if len(md.SignatureBytes) == 0 {
		if x.isRequired(RequireOpenPGP) || len(x.o.OpenPGP) > 0 {
			return x.failCheck("openpgp", ErrUnsigned)
		}
		x.addCheck("openpgp", "absent", "the origin publishes no key")
		return nil
	}
	o := signing.VerifyOptions{Now: x.o.Now, AllowExpired: x.o.AllowExpired}
	if len(x.o.OpenPGP) > 0 || x.isRequired(RequireOpenPGP) {
		key, err := signing.Verify(md.ShasumsBytes, md.SignatureBytes, x.o.OpenPGP, o)
		if err == nil && key.Weak != "" && x.isRequired(RequireOpenPGP) {
			err = fmt.Errorf("key %s: %s", key.ID, key.Weak)
		}
		if err != nil {
			return x.failCheck("openpgp", err)
		}
		x.addCheck("openpgp", "trusted", "key %s %s%s", key.ID, key.UserID, weakWarning(key))
		return nil
	}
	served, err := PublicKeys(md.Keys)
	if err != nil {
		return x.failCheck("openpgp", err)
	}
	key, err := signing.Verify(md.ShasumsBytes, md.SignatureBytes, served, o)
	if err != nil {
		return x.failCheck("openpgp", err)
	}
	x.addCheck("openpgp", "consistent", "key %s %s, no trusted key given%s", key.ID, key.UserID, weakWarning(key))
	return nil
}

// weakWarning is the warning about a signature behind the words about its key.
func weakWarning(key signing.PublicKey) string {
	if key.Weak == "" {
		return ""
	}
	return "; warning: " + key.Weak
}

// platforms compares the annotations of each platform with its manifest and
// with its line in SHA256SUMS.
func (x *verifier) platforms(ctx context.Context, index artifact.ProviderIndex, sums signing.Sums) error {
	for _, p := range index.Platforms {
		name := "platform " + p.Platform.String()
		zip, err := x.zip(ctx, p)
		if err == nil && p.Zh != "" && (p.Zh != zip.Digest.Encoded() || p.Size != zip.Size) {
			err = fmt.Errorf("the index says zh %s, the manifest has %s", p.Zh, zip.Digest.Encoded())
		}
		if err == nil && sums != nil {
			err = signing.CheckListed(sums, p, zip)
		}
		if err == nil && x.o.Deep {
			err = x.verifyDeep(ctx, p, zip)
		}
		if err != nil {
			return x.failCheck(name, err)
		}
		x.addCheck(name, "ok", "zh:%s", zip.Digest.Encoded())
	}
	return nil
}

// zip returns the zip of a platform, read from its manifest unless the index is trusted.
func (x *verifier) zip(ctx context.Context, p artifact.ProviderPlatform) (oci.Descriptor, error) {
	if x.o.Lean && p.Zh != "" && p.Size > 0 {
		return oci.Descriptor{Digest: digest.NewDigestFromEncoded(digest.SHA256, p.Zh), Size: p.Size}, nil
	}
	// the manifest has to be read
	p.Zh = ""
	p.Size = 0
	return artifact.ResolveProviderZip(ctx, x.Repository, p)
}

// verifyDeep reads the zip and recomputes its h1 hash.
func (x *verifier) verifyDeep(ctx context.Context, p artifact.ProviderPlatform, zip oci.Descriptor) error {
	file, done, err := fetchTemp(ctx, x.Repository, zip)
	if err != nil {
		return err
	}
	defer done()
	h1, err := signing.HashPackage(ctx, file, zip.Size, x.Item.Provider.Type, p.Platform)
	if err == nil && p.H1 != "" && p.H1 != h1 {
		err = fmt.Errorf("the index says %s, the zip has %s", p.H1, h1)
	}
	return err
}

func (x *verifier) protocols(index artifact.ProviderIndex, md artifact.ProviderMetadata) error {
	if md.RegistryManifest == nil {
		return nil
	}
	want, err := signing.ParseRegistryManifest(md.RegistryManifest)
	if err == nil && !slices.Equal(want, index.Protocols) {
		err = fmt.Errorf("the index says %v, the registry manifest %v", index.Protocols, want)
	}
	if err != nil {
		return x.failCheck("protocols", err)
	}
	x.addCheck("protocols", "ok", "%s", strings.Join(index.Protocols, ", "))
	return nil
}

// verifyTemplate accepts a valid template manifest. The reader of the template checks its content.
func (x *verifier) verifyTemplate(context.Context) error {
	t, err := artifact.ParseTemplate(x.Manifest)
	if err == nil && (t.Name != x.Item.Template || t.Version != x.Version) {
		err = fmt.Errorf("contains version %s of %s: %w", t.Version, t.Name, oci.ErrCorrupt)
	}
	if err != nil {
		return x.failCheck("template", err)
	}
	return nil
}
