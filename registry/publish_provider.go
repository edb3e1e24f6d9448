// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Bounds of the publication of a provider.
const (
	maxProviderFile    = 1 << 30
	maxProviderRequest = 1 << 20
	maxReleaseText     = 1 << 20 // SHA256SUMS, its signature, the registry manifest
	maxKnownRequest    = 1 << 10
	maxReceipts        = 100
)

// A receipt is signed proof, for all replicas, that a file was uploaded to a version's repository.
const (
	signReceipt = "okara-upload-v1"
	receiptTTL  = 24 * time.Hour
)

// fileName matches a file of a release as named by GoReleaser, or SHA256SUMS alone.
var fileName = text.Pattern(`^(terraform-(provider|registry)[A-Za-z0-9._+-]{1,200}|SHA256SUMS(\.sig)?)$`)

// receiveFile stores a file of a release, checked if it is a package, as a blob of no manifest yet.
func (p *publishing) receiveFile(w http.ResponseWriter, r call[providerVersion]) error {
	u, repo, err := p.uploadOf(r)
	if err != nil {
		return err
	}
	file, done, err := files.TempFile("")
	if err != nil {
		return err
	}
	defer done()
	size, sum, err := receiveBody(r.Request, file, maxProviderFile)
	if err != nil {
		return err
	}
	if err := checkContentDigest(r.Header.Get("Content-Digest"), sum); err != nil {
		return err
	}
	u.Digest = digest.NewDigestFromEncoded(digest.SHA256, hex.EncodeToString(sum[:]))
	u.Size = size
	if err := u.inspect(r.Context(), file); err != nil {
		return err
	}
	blob := oci.Blob{
		Descriptor: oci.Descriptor{MediaType: artifact.MediaZip, Digest: u.Digest, Size: u.Size},
		Open:       func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(file, 0, size)), nil },
	}
	if _, err := repo.EnsureBlob(r.Context(), blob); err != nil {
		return err
	}
	return p.writeReceipt(w, http.StatusCreated, u)
}

// knownFile answers with a receipt for a file that the repository has, so that it need not be sent
// again. Only a caller that may publish there sees why it fails.
func (p *publishing) knownFile(w http.ResponseWriter, r call[providerVersion]) error {
	u, repo, err := p.uploadOf(r)
	if err != nil {
		return err
	}
	var in struct {
		Digest digest.Digest `json:"digest"`
	}
	if err := readJSON(r.Request, maxKnownRequest, &in); err != nil {
		return err
	}
	d, err := repo.Stat(r.Context(), in.Digest)
	if err != nil {
		return orNotFound(err, "file %s", u.File)
	}
	if u.Digest, u.Size = d.Digest, d.Size; u.Size > maxProviderFile {
		return unprocessableError(fmt.Errorf("%s is %d bytes, the limit is %d", u.File, u.Size, maxProviderFile))
	}
	if u.isPackage() {
		file, done, err := files.TempFile("")
		if err != nil {
			return err
		}
		defer done()
		if err := fetchBlob(r.Context(), repo, u, file); err != nil {
			return err
		}
		if err := u.inspect(r.Context(), file); err != nil {
			return err
		}
	}
	return p.writeReceipt(w, http.StatusOK, u)
}

func fetchBlob(ctx context.Context, repo *oci.Repo, u upload, to io.Writer) error {
	in, err := repo.Open(ctx, oci.Descriptor{Digest: u.Digest, Size: u.Size})
	if err != nil {
		return orNotFound(err, "upload %s; send it again", u.File)
	}
	defer in.Close()
	_, err = io.Copy(to, in)
	return err
}

func (p *publishing) uploadOf(r call[providerVersion]) (upload, *oci.Repo, error) {
	u := upload{Repository: p.layout.Provider(r.at.Provider), File: r.PathValue("filename"), typ: r.at.Type}
	if !fileName().MatchString(u.File) {
		return upload{}, nil, unprocessableError(fmt.Errorf("%q is not a file name of a provider release", u.File))
	}
	if u.isPackage() {
		var err error
		if u.platform, err = signing.PackagePlatform(r.at.Provider, r.at.version, u.File); err != nil {
			return upload{}, nil, unprocessableError(err)
		}
	}
	repo, err := r.client.Repo(u.Repository)
	return u, repo, err
}

func (p *publishing) writeReceipt(w http.ResponseWriter, status int, u upload) error {
	u.Expires = p.now().Add(receiptTTL).Unix()
	receipt, err := newReceipt(p.keys, u)
	if err != nil {
		return err
	}
	doc := map[string]any{"filename": u.File, "digest": u.Digest, "size": u.Size, "receipt": receipt}
	if u.H1 != "" {
		doc["h1"] = u.H1
	}
	return writeDocument(w, status, doc)
}

// publishProvider creates a version from the uploaded files, with the same checks as `okara publish
// provider`. They include the signature of SHA256SUMS: the server has no signing key.
func (p *publishing) publishProvider(w http.ResponseWriter, r call[providerVersion]) error {
	var in struct {
		Receipts []string `json:"receipts"`
		Keys     []string `json:"keys"`
		Extend   bool     `json:"extend"` // add platforms to a version that exists

		Protocols []string `json:"protocols"` // instead of those in the registry manifest
	}
	if err := readJSON(r.Request, maxProviderRequest, &in); err != nil {
		return err
	}
	if len(in.Receipts) == 0 || len(in.Receipts) > maxReceipts {
		return unprocessableError(fmt.Errorf("%d receipts, expected 1 to %d", len(in.Receipts), maxReceipts))
	}
	annotations, err := originAnnotations(r.Request, r.grant)
	if err != nil {
		return unprocessableError(err)
	}
	o := depot.ProviderOptions{Extend: in.Extend, Annotations: annotations, Protocols: in.Protocols}
	if err := signing.CheckProtocols(in.Protocols); err != nil {
		return unprocessableError(err)
	}
	for _, armor := range in.Keys {
		keys, err := signing.ParsePublicKeys([]byte(armor))
		if err != nil {
			return unprocessableError(err)
		}
		o.Keys = append(o.Keys, keys...)
	}
	dir, remove, err := files.TempDir("")
	if err != nil {
		return err
	}
	defer p.removeUnpacked(remove)
	repository := p.layout.Provider(r.at.Provider)
	for _, receipt := range in.Receipts {
		u, repo, err := p.receivedAs(receipt, r.client, repository)
		if err != nil {
			return err
		}
		if !u.isPackage() {
			err = fetchText(r.Context(), repo, u, dir)
		} else if k, e := u.storedPackage(r.Context(), repo, r.at); e == nil {
			o.Stored = append(o.Stored, k)
		} else {
			err = e
		}
		if err != nil {
			return err
		}
	}
	out, err := r.depot.PublishProvider(r.Context(), os.DirFS(dir), r.at.Provider, r.at.version, o)
	p.recordPublished(r.view, r.grant, r.at.Provider.String(), access.Change{Action: rights.Publish, Version: r.at.version.String()}, out, err)
	if err != nil {
		return publishError(err)
	}
	r.catalog.AddedVersion(repository, out.Tag)
	return p.sendPublished(w, r.Request, out)
}

func (p *publishing) receivedAs(receipt string, client *oci.Client, repository string) (upload, *oci.Repo, error) {
	u, err := readReceipt(p.keys, receipt, p.now())
	if err != nil {
		return upload{}, nil, err
	}
	if u.Repository != repository {
		return upload{}, nil, unprocessableError(fmt.Errorf("the receipt of %s belongs to another provider", u.File))
	}
	repo, err := client.Repo(repository)
	return u, repo, err
}

// fetchText stores an uploaded file where the checks of a release expect it.
func fetchText(ctx context.Context, repo *oci.Repo, u upload, dir string) error {
	limit := int64(maxReleaseText)
	if strings.HasSuffix(u.File, "_"+depot.DocsFile) {
		limit = artifact.MaxProviderDocs
	}
	if u.Size > limit {
		return unprocessableError(fmt.Errorf("%s is %d bytes, the limit is %d", u.File, u.Size, limit))
	}
	out, err := os.OpenFile(filepath.Join(dir, u.File), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return unprocessableError(fmt.Errorf("duplicate receipt for %s", u.File))
	}
	return errors.Join(fetchBlob(ctx, repo, u, out), out.Close())
}

type upload struct {
	Repository string        `json:"r"`
	File       string        `json:"f"`
	Digest     digest.Digest `json:"d"`
	Size       int64         `json:"s"`
	H1         string        `json:"h,omitempty"` // of a package, which was inspected
	Expires    int64         `json:"e"`

	typ      string // of the provider; for inspect, not part of the receipt
	platform addr.Platform
}

func (u *upload) isPackage() bool { return strings.HasSuffix(u.File, ".zip") }

// inspect does a large package's slow checks while its file is here, so that publishing is short.
func (u *upload) inspect(ctx context.Context, file io.ReaderAt) (err error) {
	if !u.isPackage() {
		return nil
	}
	if u.H1, err = signing.HashPackage(ctx, file, u.Size, u.typ, u.platform); err != nil {
		return publishError(fmt.Errorf("%s: %w", u.File, err))
	}
	return nil
}

// storedPackage returns the package of a receipt if the registry still has it.
func (u *upload) storedPackage(ctx context.Context, repo *oci.Repo, at providerVersion) (depot.Package, error) {
	platform, err := signing.PackagePlatform(at.Provider, at.version, u.File)
	if err != nil {
		return depot.Package{}, unprocessableError(err)
	}
	if u.H1 == "" {
		return depot.Package{}, unprocessableError(fmt.Errorf("the receipt of %s is not valid; upload the file again", u.File))
	}
	if _, err := repo.Stat(ctx, u.Digest); err != nil {
		return depot.Package{}, orNotFound(err, "upload %s; send it again", u.File)
	}
	return depot.Package{Platform: platform, Filename: u.File, SHA256: u.Digest.Encoded(), H1: u.H1, Size: u.Size}, nil
}

// newReceipt returns "<kid>.<content>.<mac>".
func newReceipt(keys *keyring.Ring, u upload) (string, error) {
	b, err := json.Marshal(u)
	if err != nil {
		return "", err
	}
	content := base64.RawURLEncoding.EncodeToString(b)
	id, signature := keys.Sign(signReceipt, content)
	return id + "." + content + "." + signature, nil
}

// readReceipt verifies a receipt before it reads the content.
func readReceipt(keys *keyring.Ring, receipt string, now time.Time) (upload, error) {
	forged := unprocessableError(errors.New("a receipt is not valid; upload the file again"))
	part := strings.Split(receipt, ".")
	if len(part) != 3 || !keys.Verify(signReceipt, part[0], part[2], part[1]) {
		return upload{}, forged
	}
	var u upload
	b, err := base64.RawURLEncoding.DecodeString(part[1])
	if err != nil || json.Unmarshal(b, &u) != nil {
		return upload{}, forged
	}
	if now.Unix() >= u.Expires {
		return upload{}, unprocessableError(fmt.Errorf("the receipt of %s expired at %s; upload the file again",
			strconv.Quote(u.File), time.Unix(u.Expires, 0).UTC().Format(time.RFC3339)))
	}
	return u, nil
}
