//! The pages of a column, as the Parquet library needs them: it takes for granted that a page whose
//! values refer to a dictionary comes after one, and panics if a damaged file has none.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};

/// A reader of pages that refuses those without their dictionary.
pub(super) struct Pages {
    pages: Box<dyn PageReader>,
    has_dictionary: bool,
}

impl Pages {
    /// Returns the checked pages of a column.
    pub(super) fn new(pages: Box<dyn PageReader>) -> Self {
        Self { pages, has_dictionary: false }
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        match &page {
            Some(Page::DictionaryPage { .. }) => self.has_dictionary = true,
            Some(page) if refers_to_dictionary(page) && !self.has_dictionary => {
                return Err(ParquetError::General(
                    "a column has no dictionary, but its values need one".into(),
                ));
            }
            _ => {}
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}

fn refers_to_dictionary(page: &Page) -> bool {
    matches!(page.encoding(), Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Given(Vec<Page>);

    impl Iterator for Given {
        type Item = Result<Page>;

        fn next(&mut self) -> Option<Self::Item> {
            self.get_next_page().transpose()
        }
    }

    impl PageReader for Given {
        fn get_next_page(&mut self) -> Result<Option<Page>> {
            Ok(self.0.pop())
        }

        fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
            Ok(None)
        }

        fn skip_next_page(&mut self) -> Result<()> {
            Ok(())
        }
    }

    fn data(encoding: Encoding) -> Page {
        Page::DataPage {
            buf: vec![0; 8].into(),
            num_values: 1,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        }
    }

    /// Promise: a page that needs a dictionary is an error if none came before it.
    #[test]
    fn dictionaries_come_first() {
        let dictionary = || Page::DictionaryPage {
            buf: vec![0; 8].into(),
            num_values: 1,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        for encoding in [Encoding::RLE_DICTIONARY, Encoding::PLAIN_DICTIONARY] {
            let read = |pages| Pages::new(Box::new(Given(pages))).collect::<Result<Vec<_>>>();
            assert_eq!(read(vec![data(encoding), dictionary()]).unwrap().len(), 2);
            let refused = read(vec![data(encoding), data(Encoding::PLAIN)]).unwrap_err();
            assert!(refused.to_string().contains("has no dictionary"), "{refused}");
        }
    }
}
