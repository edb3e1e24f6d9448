// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/s3facade"
)

// TestS3 uses the facade as the s3 backend does, with the AWS SDK: locks, parts, lists.
func TestS3(t *testing.T) {
	each(t, func(t *testing.T, c *oci.Client) {
		ctx := t.Context()
		const key, lockKey = "registry.example.com/team/s3/state", "registry.example.com/team/s3/state.tflock"
		one, two := newS3(t, c), newS3(t, c)
		lock := func(client *s3.Client, id string) error {
			_, err := client.PutObject(ctx, &s3.PutObjectInput{
				Bucket: aws.String(s3facade.Bucket), Key: aws.String(lockKey), IfNoneMatch: aws.String("*"),
				Body: strings.NewReader(`{"ID":"` + id + `","Operation":"OperationTypeApply","Who":"conformance"}`),
			})
			return err
		}
		must.Succeed(t, lock(one, "one"))
		if err := lock(two, "two"); !isCode(err, "PreconditionFailed") {
			t.Errorf("a second lock: %v, want PreconditionFailed", err)
		}
		put(t, one, key, state(1))
		upload(t, one, key, append(state(2), bytes.Repeat([]byte(" "), 6<<20)...))
		got := get(t, two, key)
		if !bytes.HasPrefix(got, state(2)) || len(got) != len(state(2))+6<<20 {
			t.Errorf("got %d bytes that begin with %.80q", len(got), got)
		}
		get(t, one, lockKey)
		must.Get(one.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String(s3facade.Bucket), Key: aws.String(lockKey)}))(t)
		if err := lock(two, "two"); err != nil {
			t.Errorf("a lock after the release: %v", err)
		}
		if _, err := one.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(s3facade.Bucket), Key: aws.String("env:/other/" + key)}); !isNoSuchKey(err) {
			t.Errorf("a workspace without a state: %v, want NoSuchKey", err)
		}
	})
}

// newS3 returns a client of its own facade, as for each run of a tool.
func newS3(t *testing.T, c *oci.Client) *s3.Client {
	t.Helper()
	repo := mustRepo(t, c, "conformance/s3")
	facade := s3facade.New(s3facade.Options{
		AccessKey: "AKIAEXAMPLE",
		TempDir:   t.TempDir(),
		Open: func(context.Context, s3facade.Ref) (*statebackend.Store, error) {
			return statebackend.New(repo, statebackend.Options{}), nil
		},
	})
	server := httptest.NewServer(facade)
	t.Cleanup(func() {
		server.Close()
		if err := facade.Close(); err != nil {
			t.Error(err)
		}
	})
	return s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(server.URL), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("AKIAEXAMPLE", "secret", ""),
	})
}

func put(t *testing.T, client *s3.Client, key string, body []byte) {
	t.Helper()
	in := &s3.PutObjectInput{Bucket: aws.String(s3facade.Bucket), Key: aws.String(key), Body: bytes.NewReader(body)}
	must.Get(client.PutObject(t.Context(), in))(t)
}

// upload sends a body in two parts, the first of the minimum size of S3.
func upload(t *testing.T, client *s3.Client, key string, body []byte) {
	t.Helper()
	ctx, bucket := t.Context(), aws.String(s3facade.Bucket)
	created := must.Get(client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: aws.String(key)}))(t)
	var parts []types.CompletedPart
	for i, part := range [][]byte{body[:5<<20], body[5<<20:]} {
		n := aws.Int32(int32(i + 1))
		sent := must.Get(client.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: bucket, Key: aws.String(key), UploadId: created.UploadId, PartNumber: n, Body: bytes.NewReader(part),
		}))(t)
		parts = append(parts, types.CompletedPart{ETag: sent.ETag, PartNumber: n})
	}
	must.Get(client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: bucket, Key: aws.String(key), UploadId: created.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	}))(t)
}

func get(t *testing.T, client *s3.Client, key string) []byte {
	t.Helper()
	out := must.Get(client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String(s3facade.Bucket), Key: aws.String(key)}))(t)
	defer out.Body.Close()
	return must.Get(io.ReadAll(out.Body))(t)
}

func isCode(err error, code string) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == code
}

func isNoSuchKey(err error) bool {
	_, ok := errors.AsType[*types.NoSuchKey](err)
	return ok
}
