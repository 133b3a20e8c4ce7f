//! Equal code is stored once; code that is not of one backend is not shared, and other code is in sections of its own.

use bytes::Bytes;

use super::{Contents, bytes_of, node, open, sample};
use crate::artifact::{Section, code_sections, write};

/// Contents with three regions of that code.
fn regions(code: [&'static str; 3]) -> Contents {
    let mut contents = sample(64);
    let first = contents.manifest.regions[0].clone();
    contents.manifest.regions = (0..3)
        .map(|index| {
            let mut region = first.clone();
            region.symbol = format!("byoc_main_acme_{index}");
            region
        })
        .collect();
    contents.nodes = vec![node(); 3];
    contents.sections.pop();
    let code = |index: usize, _: &_| Ok((Bytes::from_static(code[index].as_bytes()), None));
    contents.sections.extend(code_sections(&mut contents.manifest, code).expect("code"));
    contents
}

fn names(contents: &Contents) -> Vec<&str> {
    let code = contents.sections.iter().map(|section| section.name.as_str());
    code.filter(|name| name.starts_with("code/")).collect()
}

#[test]
fn equal_code_stands_once() {
    let contents = regions(["a kernel", "another", "a kernel"]);
    assert_eq!(names(&contents), ["code/byoc_main_acme_0", "code/byoc_main_acme_1"]);
    let artifact = open(bytes_of(&contents)).expect("it opens");
    artifact.verify_digests().expect("whole");
    let code = artifact.manifest().regions.iter().map(|region| artifact.section(&region.code).expect("code"));
    assert_eq!(code.collect::<Vec<_>>(), ["a kernel", "another", "a kernel"]);
    let all = regions(["one", "two", "three"]);
    assert_eq!(names(&all).len(), 3);
    open(bytes_of(&all)).expect("it opens");
}

#[test]
fn code_is_shared_by_regions_of_one_backend_only() {
    let refused = |change: fn(&mut Contents)| {
        let mut contents = regions(["a kernel"; 3]);
        change(&mut contents);
        write::Plan::new(&contents).err()
    };
    assert_eq!(refused(|_| {}), None);
    let section = "section 'code/byoc_main_acme_0':";
    assert_eq!(
        refused(|contents| contents.manifest.regions[1].backend = "zeta".into()),
        Some(format!("{section} it is code of 'acme' version 3 and of 'zeta' version 3"))
    );
    assert_eq!(
        refused(|contents| contents.manifest.regions[2].code_version = 4),
        Some(format!("{section} it is code of 'acme' version 3 and of 'acme' version 4"))
    );
    assert_eq!(
        refused(|contents| {
            let code = Section::of_bytes("code/more", Bytes::from_static(b"a kernel"));
            contents.sections.push(code);
        }),
        Some("section 'code/more': nothing refers to it".into())
    );
    assert_eq!(
        refused(|contents| contents.manifest.regions[1].code = "const/0".into()),
        Some("region 'byoc_main_acme_1': its code is in section 'const/0', which does not start with 'code/'".into())
    );
}
